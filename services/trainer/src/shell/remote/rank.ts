/** Whether a server refuses the rank of a batch, and not the line: found out by asking for both ranks. */
import { InstarError } from '@instar/events'
import { baseModelOf, type Connection } from './bind.ts'
import type { RemotePorts } from './ports.ts'

/** The codes with which a server refuses a rank; it may say so when a model is created, or when one is trained. */
const CODES: readonly string[] = ['trainer_refused', 'trainer_failed']
/** Statuses about key, billing and rights, whatever is asked for. */
const ABOUT_KEY: readonly unknown[] = [401, 402, 403]

/** Whether an error may be about the rank that was asked for. */
export const mayBeAboutRank = (error: unknown): error is InstarError =>
  error instanceof InstarError && CODES.includes(error.code) && !ABOUT_KEY.includes(error.details.status)

/**
 * Probes the server at `other`, then again at `rank`: true if it takes the first and refuses the second. A server that refuses
 * both, takes both, or is away by then has no objection to the rank.
 */
export const refusesRank = async (
  { server, signal }: Pick<RemotePorts, 'server' | 'signal'>,
  connection: Pick<Connection, 'baseModel'>,
  rank: number,
  other: number,
): Promise<boolean> => {
  const answer = async (asked: number): Promise<'takes' | 'refuses' | 'fails'> => {
    try {
      await server.probe(await baseModelOf(server, connection.baseModel, signal), asked, signal)
      return 'takes'
    } catch (error) {
      signal.throwIfAborted()
      return mayBeAboutRank(error) ? 'refuses' : 'fails'
    }
  }
  return (await answer(other)) === 'takes' && (await answer(rank)) === 'refuses'
}
