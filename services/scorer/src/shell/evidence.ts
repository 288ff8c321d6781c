/** Reads back from the log what a judge is to see. */
import { readWritten } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { lastRequest, messagesOf, saidSince } from '../core/conversation.ts'
import type { Evidence } from '../core/judgement.ts'

/** `next`: the turn whose request holds the next state, null if the session ended. `shown`: the turn that it was said to, null if it is `turn`. */
export const readEvidence = async (reader: TurnReader, turn: string, { next, shown }: { next: string | null; shown: string | null }): Promise<Evidence> => {
  const record = await reader.record(turn)
  const messages = messagesOf(record.dialect, await reader.body(turn))
  const answer = readWritten(record.text)
  const seen = shown === null ? null : readWritten((await reader.record(shown)).text)
  const calls = record.toolCallIds.length > 0
  const evidence = { request: lastRequest(messages), answer, calls, ...(seen === null ? {} : { shown: seen }) }
  if (next === null) return { ...evidence, next: null }
  const { stateFrom, dialect } = await reader.record(next)
  const answered = { messages, text: seen ?? answer }
  return { ...evidence, next: saidSince(answered, messagesOf(dialect, await reader.body(next)), stateFrom) }
}
