/**
 * The turns of a session by their answer. Of each answer only the latest turns are kept, so that a session with many equal
 * answers costs no more for each turn.
 */
import type { AnswerKey } from '../records.ts'
import type { LatestAnswer, SessionState, TurnState } from './turn-states.ts'

export const addAnswer = (answers: Map<string, LatestAnswer>, key: string, turn: TurnState): void => {
  const latest = answers.get(key)
  if (!latest) answers.set(key, { last: turn, other: null })
  else {
    if (latest.last.digest !== turn.digest) latest.other = latest.last
    latest.last = turn
  }
}

/**
 * The turn of this session with the given answer: by the strict key, or else by the loose one. Of several, the first
 * candidate of the latest request. `except`: the digest of requests to ignore.
 */
export const findAnswer = (
  session: Pick<SessionState, 'byStrict' | 'byLoose' | 'byGroup'>,
  key: AnswerKey,
  except: string | null = null,
): TurnState | undefined => {
  const strict = latestOf(session.byStrict.get(key.strict), except)
  const last = strict ?? latestOf(session.byLoose.get(key.loose), except)
  const isEqual = ({ answer }: TurnState): boolean =>
    strict ? answer.strict === key.strict : answer.loose === key.loose
  return last && (session.byGroup.get(last.group)?.find((turn) => turn.shown && isEqual(turn)) ?? last)
}

const latestOf = (latest: LatestAnswer | undefined, except: string | null): TurnState | undefined =>
  (latest?.last.digest === except ? latest.other : latest?.last) ?? undefined
