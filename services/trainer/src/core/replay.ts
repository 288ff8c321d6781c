/** The batches and turns that a replay computes again, and the records of its branch: a policy with its own key. */
import {
  batchOfUpdate,
  InstarError,
  shownOf,
  updateLine,
  weightLine,
  type BatchSealed,
  type BatchState,
  type LineStarted,
  type VersionState,
} from '@instar/events'
import { combine, type Baselines } from './baseline.ts'
import { advantagesOf, outcomeOf } from './episodes.ts'
import { isTooLong } from './pending.ts'
import type { AuditState } from './audit-state.ts'

/**
 * A version (`from`: the range starts after its batch; `until`: the range includes it) or a time in ms since the epoch.
 */
export type Bound = { version: number } | { time: number } | null
export type ReplayOptions = {
  branch: string
  from: Bound
  until: Bound
  set: Record<string, string>
  judge: string | null
}

export const branchKey = (policy: string, branch: string): string => `${policy}~${branch}`

/** The version whose adapter and optimizer state the replay starts from; for a time, the head at that time. */
export const startVersion = (state: AuditState, from: Bound): number => {
  if (from === null) return 0
  if ('time' in from) {
    for (let i = state.moves.length - 1; i >= 0; i -= 1) {
      const move = state.moves.at(i)
      if (move && move.at <= from.time) return move.to
    }
    return 0
  }
  versionOf(state, from.version)
  return from.version
}

const versionOf = (state: AuditState, version: number): VersionState => {
  const found = weightLine(state.weights, state.policy).versions.get(version)
  if (!found) throw new InstarError('unknown_version', `${state.policy} has no version ${version}`, { version })
  return found
}

/**
 * The time at which the batch of a version was sealed; for a promoted version, whose batch is on a branch, its own
 * time.
 */
const sealedAt = (state: AuditState, bound: NonNullable<Bound>): number => {
  if ('time' in bound) return bound.time
  if (bound.version === 0) return -1
  const version = versionOf(state, bound.version)
  return (
    (version.update === null ? undefined : batchOfUpdate(updateLine(state.updates, state.policy), version.update))
      ?.sealed.at ?? version.at
  )
}

type SealedRange = { after: number; upTo: number }

/** The times of sealing in the range: after `from`, up to and including `until`. */
const rangeOf = (state: AuditState, from: Bound, until: Bound): SealedRange => ({
  after: from === null ? -1 : sealedAt(state, from),
  upTo: until === null ? Number.MAX_SAFE_INTEGER : sealedAt(state, until),
})

const isWithin = (at: number, { after, upTo }: SealedRange): boolean => at > after && at <= upTo

/** Batches of the range that have an update, in order; a replay with unchanged settings computes them again. */
export function* recordedBatches(
  state: AuditState,
  from: Bound,
  until: Bound,
): Generator<BatchState & { update: NonNullable<BatchState['update']> }> {
  const range = rangeOf(state, from, until)
  const ids = state.batches.get(state.policy)
  for (let i = 0; i < (ids?.length ?? 0); i += 1) {
    const batch = updateLine(state.updates, state.policy).byId.get(ids?.at(i) ?? '')
    if (batch?.update && isWithin(batch.sealed.at, range)) yield { ...batch, update: batch.update }
  }
}

/**
 * Whether a replay with changed settings may use a turn: not spent before the range and, with `until`, spent within it.
 */
export const turnsInRange = (state: AuditState, from: Bound, until: Bound): ((turn: string) => boolean) => {
  const range = rangeOf(state, from, until)
  return (turn) => {
    const at = state.spentAt.get(turn)
    return at === undefined ? until === null : until === null ? at > range.after : isWithin(at, range)
  }
}

/**
 * The first record of a branch. `batches`: the number of batches of the replay; a branch with fewer is unfinished.
 * Throws `unknown_version` and `no_line`.
 */
export const branchStarted = (
  state: AuditState,
  key: string,
  from: number,
  batches: number,
  now: number,
): LineStarted => {
  const line = weightLine(state.weights, state.policy)
  const version = versionOf(state, from)
  if (!line.started) throw new InstarError('no_line', `${state.policy} has not been started`)
  return {
    type: 'LineStarted',
    prev: '',
    policy: key,
    mode: 'replay',
    base: line.started.base,
    parent: { policy: state.policy, version: from, adapter: version.adapter, state: version.state },
    settings: { batches },
    at: now,
  }
}

export type ScoredTurn = {
  turn: string
  record: string
  session: string
  group: string
  score: string
  subject: string
  key: string | null
  version: number
  /** Its own score; 0 if it was skipped. */
  reward: number
  turnScore?: number | null
  outcome?: number | null
  closing?: string | null
  task?: string | null
  hint: BatchSealed['items'][number]['hint']
}

/** Usable turns with a next state, in log order; a judge may score them again. */
export function* turnsWithNextState(
  state: AuditState,
): Generator<{ turn: string; next: string; shown: string | null }> {
  for (let i = 0; i < state.turnOrder.length; i += 1) {
    const turn = state.turns.turns.get(state.turnOrder.at(i) ?? '')
    if (
      !turn ||
      turn.kind !== 'main' ||
      turn.status !== 'complete' ||
      !turn.trainable ||
      turn.discardedBy !== null ||
      turn.policy !== state.policy
    )
      continue
    const shown = shownOf(state.turns.sessions.get(turn.session), turn)
    if (shown && shown.next !== null) yield { turn: turn.turn, next: shown.next, shown: turn.shown ? null : shown.turn }
  }
}

/**
 * The turns of a replay with changed settings, in the order of their first scores: usable, not too long for a batch,
 * and scored under the key `scoredBy` (the policy or a branch of it).
 */
export function* scoredTurns(state: AuditState, scoredBy = state.policy): Generator<ScoredTurn> {
  const order = state.scored.get(scoredBy)
  for (let i = 0; i < (order?.length ?? 0); i += 1) {
    const score = state.scores.get(scoredBy)?.turns.get(order?.at(i) ?? '')
    const turn = score && state.turns.turns.get(score.turn)
    if (
      !turn ||
      (score.reward === null && turn.outcomeBy === null) ||
      isTooLong(score) ||
      turn.policy !== state.policy ||
      turn.status !== 'complete' ||
      !turn.trainable ||
      turn.discardedBy !== null
    )
      continue
    const outcome = outcomeOf(state, turn)
    yield {
      turn: score.turn,
      record: turn.record,
      session: score.session,
      group: turn.group,
      score: score.score,
      subject: score.subject,
      key: turn.key,
      version: score.version,
      reward: score.reward ?? 0,
      turnScore: score.reward,
      outcome: outcome?.value ?? null,
      closing: outcome?.closing ?? null,
      task: outcome?.task ?? null,
      hint: score.hint,
    }
  }
}

/** A new batch of `turns`. `before`: the running means of rewards before it. */
export const sealTurns = (
  turns: readonly ScoredTurn[],
  before: Baselines,
  batch: Pick<BatchSealed, 'prev' | 'policy' | 'number' | 'parent' | 'seed' | 'loss' | 'settings' | 'at'>,
): BatchSealed => {
  const rewarded = turns.map((turn) => ({
    ...turn,
    task: turn.task ?? null,
    reward:
      (turn.outcome ?? null) === null
        ? turn.reward
        : combine(turn.turnScore ?? null, turn.outcome ?? null, batch.settings.turnScoreWeight ?? 0),
  }))
  const { items, after } = advantagesOf(rewarded, before, batch.settings)
  return {
    type: 'BatchSealed',
    ...batch,
    dropped: [],
    baselines: after,
    items: rewarded.map(({ group: _, key: __, task: ___, ...turn }, i) => ({
      ...turn,
      baseline: items[i]?.baseline ?? 0,
      advantage: items[i]?.advantage ?? 0,
    })),
  }
}
