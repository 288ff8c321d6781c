/** Reads back from the log what a judge is to see. */
import { readWritten } from '@instar/events'
import type { TurnReader } from '@instar/log'
import {
  beforeRequest,
  lastRequest,
  messagesOf,
  saidSince,
  wrappedInRequest,
  wrappedSince,
} from '../core/conversation.ts'
import type { Evidence } from '../core/judgement.ts'

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

const wrappedIn = (...texts: string[]): Pick<Evidence, 'wrapped'> => {
  const wrapped = texts.filter((text) => text !== '')
  return wrapped.length === 0 ? {} : { wrapped: wrapped.join('\n') }
}
