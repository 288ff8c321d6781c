/** Matches the answers in a request with turns on the log, so that their sampled ids can be rendered. */
import { findAnswer, type SessionState, type TurnState } from '@instar/events'
import type { Message } from '@instar/dialects'
import { sameAnswer } from '../../session/core/resolve.ts'
import type { SessionQuery } from '../../session/core/session-query.ts'

/** The turn of each answer in the request, in order; undefined for an answer of another source. */
export const recognise = (
  session: SessionState | undefined,
  answers: SessionQuery['answers'],
): (TurnState | undefined)[] => {
  const found: (TurnState | undefined)[] = answers.map(() => undefined)
  if (!session) return found
  let next: TurnState | undefined
  for (let i = answers.length - 1; i >= 0; i -= 1) {
    const { key } = answers[i]!
    const before: TurnState | undefined = next?.follows ? session.byId.get(next.follows) : undefined
    found[i] = before && sameAnswer(before.answer, key) ? before : findAnswer(session, key)
    next = found[i] ?? next
  }
  return found
}

/** The messages with recognised answers replaced by their sampled ids. */
export const withSampledIds = (messages: readonly Message[], ids: ReadonlyMap<number, readonly number[]>): Message[] =>
  messages.map((message, at) => {
    const sampled = ids.get(at)
    return sampled ? { ...message, token_ids: sampled } : message
  })

/** Whether `prompt` begins with `earlier`. */
export const extendsIds = (prompt: readonly number[], earlier: readonly number[]): boolean =>
  prompt.length >= earlier.length && earlier.every((id, i) => prompt[i] === id)
