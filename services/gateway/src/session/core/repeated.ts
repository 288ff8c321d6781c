/** Turns whose request another one repeats, by digests that are in memory. */
import { hasDigest, type TurnState } from '@instar/events'
import { sessionState, type SessionIndex } from './session-index.ts'
import type { SessionQuery } from './session-query.ts'

/** Whether the request before the last answer is the turn's. */
export const isRepeated = (index: SessionIndex, { before }: SessionQuery, { session, group }: TurnState): boolean => {
  if (before === null) return false
  const state = sessionState(index, session)
  return state !== undefined && hasDigest(state, before, group)
}

/**
 * Those that are left where the requests cannot be read: with the same request, by its digest, or else all of them. Empty if they
 * are of several sessions, of which nothing here tells the right one.
 */
export const withoutRequests = (
  index: SessionIndex,
  asked: SessionQuery,
  candidates: readonly TurnState[],
): readonly TurnState[] => {
  const same = candidates.filter((turn) => isRepeated(index, asked, turn))
  const left = same.length > 0 ? same : candidates
  return left.every(({ session }) => session === left[0]!.session) ? left : []
}
