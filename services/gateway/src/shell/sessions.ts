/** Finds the session of a request, reading the log where the index does not know enough. */
import { InstarError } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { dialectOf, parseJson } from '@instar/dialects'
import { choose, locate, nameUnknown, settled, unlessAnother, type Asked, type Resolved, type Step } from '../core/resolve.ts'
import { sessionState, touch, type SessionIndex } from '../core/session-index.ts'
import type { Tail } from './tail.ts'

export type SessionPorts = { index: SessionIndex; tail: Tail; reader: TurnReader; tailWaitMs: number }

/** `fresh`: the name of a new session. */
export const resolveSession = async (ports: SessionPorts, asked: Asked, fresh: string): Promise<Resolved> => {
  const { index, tail } = ports
  let found = await located(ports, asked)
  if (!settled(index, asked, found.step, found.requests) && (await tail.turnsWithin(ports.tailWaitMs))) found = await located(ports, asked)
  const resolved = decided(index, asked, found) ?? await named(ports, asked, fresh)
  if (index.forgotten.has(resolved.session)) await tail.restore(resolved.session)
  touch(index, resolved.session)
  return resolved
}

/** The name of a conversation that nothing here is known of. */
const named = async ({ index, tail, reader }: SessionPorts, asked: Asked, fresh: string): Promise<Resolved> => {
  const resolved = nameUnknown(asked, fresh)
  if (index.forgotten.has(resolved.session)) await tail.restore(resolved.session)
  const first = sessionState(index, resolved.session)?.turns[0]
  return first ? unlessAnother(asked, resolved, await messagesOf(reader, first.turn)) : resolved
}

/** `requests`: the messages of each candidate's request. */
type Located = { step: Step; requests: readonly (readonly unknown[])[] }

const located = async (ports: SessionPorts, asked: Asked): Promise<Located> => {
  let step = locate(ports.index, asked)
  if (step.do === 'restore') {
    await ports.tail.restore(step.session)
    step = locate(ports.index, asked)
  }
  const requests = step.do === 'compare' ? await Promise.all(step.candidates.map(({ turn }) => messagesOf(ports.reader, turn))) : []
  return { step, requests }
}

const decided = (index: SessionIndex, asked: Asked, { step, requests }: Located): Resolved | null => {
  if (step.do === 'found') return step.resolved
  return step.do === 'compare' ? choose(index, asked, step.candidates, requests) : null
}

/** The messages of an earlier request; none where its body cannot be read any more. */
const messagesOf = async (reader: TurnReader, turn: string): Promise<readonly unknown[]> => {
  try {
    return dialectOf((await reader.record(turn)).dialect).messages(parseJson(await reader.body(turn)))
  } catch (error) {
    if (error instanceof InstarError) return []
    throw error
  }
}
