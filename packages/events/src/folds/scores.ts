/**
 * The fold of `scores`, per policy. One score per turn: the first judge or skip wins, whatever its id; only
 * explicit feedback outranks it, and of two pieces of feedback the later one (`at`, then `id`).
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
  /** Record id of the score in force. */
  score: string
  /** Null: skipped. */
  reward: number | null
  judge: string | null
  reason: string | null
  hint: Written | null
  rank: Rank | null
  /** How many scores of this turn counted before it. */
  revision: number
  /** Time of the turn's first score: the order in which batches take turns. */
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

/** Null is rank 0. */
export const outranks = (rank: Rank | null, held: Rank | null): boolean => {
  if (rank === null) return false
  if (held === null) return true
  return rank.at > held.at || (rank.at === held.at && rank.id > held.id)
}
