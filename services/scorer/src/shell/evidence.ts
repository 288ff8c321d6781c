/** Reads back from the log what a judge is to see. */
import { InstarError, MAX_DEPTH, readWritten } from '@instar/events'
import { Backoff, createTurnReader, type EventLog, type TurnReader } from '@instar/log'
import {
  beforeRequest,
  lastRequest,
  messagesOf,
  saidSince,
  wrappedInRequest,
  wrappedSince,
} from '../core/conversation.ts'
import type { Evidence } from '../core/judgement.ts'
import type { ScorerState } from '../core/state.ts'

/** Records that are cached, and bytes of the newest ones that were received. */
const CACHED_RECORDS = 256
const RECENT_RECORD_BYTES = 16 * 1024 ** 2

/**
 * Reads turns for the judges, which look at a turn and its next state soon after both were received (`keepRecent`): reading one
 * record of a large batch on Kafka costs a fetch of the batch.
 */
export const judgesReader = (log: EventLog, { turns }: Pick<ScorerState, 'turns'>): TurnReader =>
  createTurnReader(log, (turn) => turns.turns.get(turn), CACHED_RECORDS, 0, RECENT_RECORD_BYTES)

/**
 * `next`: the turn whose request holds the next state, null if the session ended. `shown`: the candidate to which it
 * replied, null if it is `turn`.
 */
export const readEvidence = async (
  reader: TurnReader,
  turn: string,
  { next, shown }: { next: string | null; shown: string | null },
): Promise<Evidence> => {
  const record = await reader.record(turn)
  const body = await reader.body(turn)
  const messages = messagesOf(record.dialect, body)
  const before = beforeRequest(body, messages)
  const answer = readWritten(record.text)
  const seen = shown === null ? null : readWritten((await reader.record(shown)).text)
  const calls = record.toolCallIds.length > 0
  const evidence = {
    key: record.key,
    turn,
    request: lastRequest(messages),
    answer,
    calls,
    ...(seen === null ? {} : { shown: seen }),
    ...(before === undefined ? {} : { before }),
  }
  const asked = wrappedInRequest(messages)
  if (next === null) return { ...evidence, ...wrappedIn(asked), next: null }
  const { stateFrom, dialect } = await reader.record(next)
  const answered = { messages, text: seen ?? answer }
  const later = messagesOf(dialect, await reader.body(next))
  return {
    ...evidence,
    ...wrappedIn(asked, wrappedSince(later, stateFrom)),
    next: saidSince(answered, later, stateFrom),
  }
}

/** `ScoredFacts.earlier` of a turn whose body was read. */
const earlierTimes = async (reader: TurnReader, turn: string): Promise<number[]> => {
  const times = new Map<string, number>()
  for (const part of ['body', 'prompt'] as const) {
    let { from } = (await reader.record(turn))[part]
    for (let left = MAX_DEPTH; from !== null && left > 0; left -= 1) {
      const earlier = await reader.record(from)
      times.set(from, earlier.at)
      from = earlier[part].from
    }
  }
  return [...new Set(times.values())].sort((a, b) => a - b)
}

/** Waits between two attempts to read a turn from a log that is unavailable, ms. */
const READ_AGAIN_MS = 50
const LONGEST_READ_AGAIN_MS = 5_000

/** Errors of what was cut from the log, and of its archive. */
const OF_ARCHIVE: ReadonlySet<string> = new Set([
  'log_cut',
  'archive_differs',
  'archive_damaged',
  'archive_unavailable',
])

/** Whether an error says that the log or its archive cannot be read here, and nothing about the turn: a skip would be final. */
export const isOfLog = (error: unknown): boolean =>
  error instanceof InstarError && (error.retryable || OF_ARCHIVE.has(error.code))

/** As `readEvidence`, with `ScoredFacts.earlier`; repeated while the log is unavailable, as the acts of other services are. */
export const readAvailable = async (
  reader: TurnReader,
  turn: string,
  replied: Parameters<typeof readEvidence>[2],
  signal: AbortSignal,
): Promise<Evidence> => {
  const backoff = new Backoff({ firstMs: READ_AGAIN_MS, longestMs: LONGEST_READ_AGAIN_MS })
  for (;;) {
    try {
      const evidence = await readEvidence(reader, turn, replied)
      return { ...evidence, earlier: await earlierTimes(reader, turn) }
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof InstarError) || error.code !== 'log_unavailable') throw error
      await backoff.wait(signal)
    }
  }
}

const wrappedIn = (...texts: string[]): Pick<Evidence, 'wrapped'> => {
  const wrapped = texts.filter((text) => text !== '')
  return wrapped.length === 0 ? {} : { wrapped: wrapped.join('\n') }
}
