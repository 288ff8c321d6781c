/**
 * The fold of `scores`, per policy. A turn has one score: the first record of a judge or a skip, unless explicit
 * feedback outranks it; of several feedback records the latest counts (by `at`, then `id`). The skip of a scored or
 * rated turn whose episode was aborted outranks all of them.
 */
import type { Logged, Rank, ScoresEvent, Written } from '../records.ts'
import { COUNTED, ignored, type FoldOutcome } from './outcome.ts'
import type { Table } from './table.ts'

export type ScoreState = {
  turn: string
  session: string
  policy: string
  version: number
  subject: string
  /** Record id of the score that counts. */
  score: string
  /** Null: skipped. */
  reward: number | null
  judge: string | null
  reason: string | null
  hint: Written | null
  rank: Rank | null
  /** Number of earlier scores of the turn that counted. */
  revision: number
  /** Time of the first score of the turn. Batches take turns in this order. */
  at: number
}

export type ScoresState = { turns: Table<string, ScoreState> }
export type MemoryScores = { turns: Map<string, ScoreState> }

export const initialScores = (): MemoryScores => ({ turns: new Map() })

export const foldScores = (state: ScoresState, logged: Logged<ScoresEvent>): FoldOutcome => {
  const { event, id } = logged
  const before = state.turns.get(event.turn)
  if (before) {
    if (before.score === id) return ignored('repeat')
    if (!outranks(event.rank, before.rank)) return ignored('outranked')
  }
  const value =
    event.type === 'TurnSkipped'
      ? { reward: null, judge: null, reason: event.reason, hint: null }
      : { reward: event.reward, judge: event.judge, reason: null, hint: event.hint }
  state.turns.set(event.turn, {
    turn: event.turn,
    session: event.session,
    policy: event.policy,
    version: event.version,
    subject: event.subject,
    score: id,
    ...value,
    rank: event.rank,
    revision: before ? before.revision + 1 : 0,
    at: before ? before.at : event.at,
  })
  return COUNTED
}

/** Of the skip of a scored or rated turn whose episode was aborted. `closing`: id of the record that aborted it. */
export const discardRank = (closing: string): Rank => ({ at: LATEST, id: closing })
export const isDiscardRank = ({ at }: Rank): boolean => at === LATEST
/** The last time of a `Date`, ms. */
const LATEST = 8_640_000_000_000_000

/** Whether `rank` is higher than `current`; null is the lowest rank. */
export const outranks = (rank: Rank | null, current: Rank | null): boolean => {
  if (rank === null) return false
  if (current === null) return true
  return rank.at > current.at || (rank.at === current.at && rank.id > current.id)
}
