/** What a replay does again, and the records of its branch. A branch is a policy with a key of its own. */
import { isLoss, LOSS_NAMES } from './loss-modes.ts'
import {
  batchOfUpdate,
  InstarError,
  shownOf,
  updateLine,
  weightLine,
  type BatchSealed,
  type BatchState,
  type LineStarted,
  type Settings,
  type VersionState,
} from '@instar/events'
import { advantages, RULES, rulesOf, type Baselines } from './baseline.ts'
import { MOST_ITEMS } from './batch.ts'
import { isTooLong } from './pending.ts'
import type { AuditState } from './audit.ts'

/** Bounds are versions (from: exclusive of its own batch, until: inclusive) or times in ms. */
export type Bound = { version: number } | { time: number } | null
export type ReplayOptions = {
  branch: string
  from: Bound
  until: Bound
  set: Record<string, string>
  judge: string | null
}

export const branchKey = (policy: string, branch: string): string => `${policy}~${branch}`

/**
 * The version from which the replay starts: its adapter and optimizer are restored from the log. A time means the
 * head of that time.
 */
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

/** The batch of a version; of a promoted one (made on a branch) the last that was sealed before it was published. */
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

/** Of when batches were sealed: behind `from`, up to and with `until`. */
const rangeOf = (state: AuditState, from: Bound, until: Bound): SealedRange => ({
  after: from === null ? -1 : sealedAt(state, from),
  upTo: until === null ? Number.MAX_SAFE_INTEGER : sealedAt(state, until),
})

const isWithin = (at: number, { after, upTo }: SealedRange): boolean => at > after && at <= upTo

/** Batches of the range with an update, in order: what a replay with unchanged settings computes again. */
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
 * The turns that a replay with changed settings may use: not spent before the range and, with `until`, spent within
 * it.
 */
export const turnsBetween = (state: AuditState, from: Bound, until: Bound): ((turn: string) => boolean) => {
  const range = rangeOf(state, from, until)
  return (turn) => {
    const at = state.spentAt.get(turn)
    return at === undefined ? until === null : until === null ? at > range.after : isWithin(at, range)
  }
}

/** `batches`: the number of batches of the whole replay, by which an unfinished branch is recognised. */
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

type SettingBounds = { should: string; fits(value: number): boolean }
const COUNT: SettingBounds = {
  should: 'a whole number of at least 1',
  fits: (value) => Number.isSafeInteger(value) && value >= 1,
}
const POSITIVE: SettingBounds = { should: 'a number above 0', fits: (value) => value > 0 }
const DECAY: SettingBounds = { should: 'at least 0 and below 1', fits: (value) => value >= 0 && value < 1 }
const BATCH: SettingBounds = {
  should: `a whole number from 1 to ${MOST_ITEMS}`,
  fits: (value) => COUNT.fits(value) && value <= MOST_ITEMS,
}
/** Every other setting is a weight or a limit that may be 0. */
const NOT_NEGATIVE: SettingBounds = { should: 'a number of at least 0', fits: (value) => value >= 0 }
const SWITCH: SettingBounds = { should: '0 or 1', fits: (value) => value === 0 || value === 1 }
/** Settings that batches of earlier builds lack; a replay may set them all the same. */
const ADDED: Readonly<Record<string, SettingBounds>> = {
  turnFactor: NOT_NEGATIVE,
  opdOverBatch: SWITCH,
  klParentMax: POSITIVE,
  klBaseMax: POSITIVE,
}
const BOUNDS: Readonly<Record<string, SettingBounds>> = {
  ...ADDED,
  rank: COUNT,
  epochs: COUNT,
  batchSize: BATCH,
  microBatchTokens: COUNT,
  alpha: POSITIVE,
  learningRate: POSITIVE,
  maxGradNorm: POSITIVE,
  beta1: DECAY,
  beta2: DECAY,
}

/** What makes a line's first adapter: one that there is keeps its own. */
const OF_THE_FIRST: readonly string[] = ['rank', 'alpha']

/**
 * `--set` by the names of the recorded settings; `lr` is short for learningRate, `loss` and `batchSize` as they are.
 * `from`: the version that the branch begins at.
 */
export const changedSettings = (
  recorded: Settings,
  set: Record<string, string>,
  from = 0,
): { settings: Settings; loss: string | null } => {
  // What is sealed anew is sealed under today's rules, which are not for choosing.
  const settings: Settings = { ...recorded, rules: RULES }
  let loss: string | null = null
  for (const [name, value] of Object.entries(set)) {
    if (name === 'loss') {
      if (!isLoss(value))
        throw new InstarError(
          'bad_request',
          `--set loss=${value}: loss is ${LOSS_NAMES.slice(0, -1).join(', ')} or ${LOSS_NAMES.at(-1)}`,
          { field: 'loss' },
        )
      loss = value
      continue
    }
    const key = name === 'lr' ? 'learningRate' : name
    const number = Number(value)
    const names = [...new Set([...Object.keys(recorded), ...Object.keys(ADDED)])]
      .filter((one) => one !== 'rules')
      .sort()
    if (!names.includes(key))
      throw new InstarError('bad_request', `--set ${name}: the settings are ${names.join(', ')}, loss`, { field: name })
    if (value.trim() === '' || !Number.isFinite(number))
      throw new InstarError('bad_request', `--set ${name}=${value}: not a number`, { field: name })
    const { should, fits } = BOUNDS[key] ?? NOT_NEGATIVE
    if (!fits(number))
      throw new InstarError('bad_request', `--set ${name}=${value}: ${name} must be ${should}`, { field: name })
    if (from > 0 && OF_THE_FIRST.includes(key))
      throw new InstarError(
        'bad_request',
        `--set ${name}=${value}: version ${from} has an adapter, which keeps its own; replay from the base for another`,
        { field: name },
      )
    settings[key] = number
  }
  return { settings, loss }
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
  reward: number
  hint: BatchSealed['items'][number]['hint']
}

/** Turns that a judge may score again: usable, with a next state, in log order. */
export function* joinedTurns(state: AuditState): Generator<{ turn: string; next: string; shown: string | null }> {
  for (let i = 0; i < state.listed.length; i += 1) {
    const turn = state.turns.turns.get(state.listed.at(i) ?? '')
    if (
      !turn ||
      turn.kind !== 'main' ||
      turn.status !== 'complete' ||
      !turn.trainable ||
      turn.discardedBy !== null ||
      turn.policy !== state.policy
    )
      continue
    const seen = shownOf(state.turns.sessions.get(turn.session), turn)
    if (seen && seen.next !== null) yield { turn: turn.turn, next: seen.next, shown: turn.shown ? null : seen.turn }
  }
}

/**
 * The turns that a replay with changed settings seals anew: scored by the policy (or a branch of it, `scoredBy`),
 * usable, no longer than a batch item may be, in the order of their first scores.
 */
export function* scoredTurns(state: AuditState, scoredBy = state.policy): Generator<ScoredTurn> {
  const order = state.scored.get(scoredBy)
  for (let i = 0; i < (order?.length ?? 0); i += 1) {
    const score = state.scores.get(scoredBy)?.turns.get(order?.at(i) ?? '')
    const turn = score && state.turns.turns.get(score.turn)
    if (
      !turn ||
      score.reward === null ||
      isTooLong(score) ||
      turn.policy !== state.policy ||
      turn.status !== 'complete' ||
      !turn.trainable ||
      turn.discardedBy !== null
    )
      continue
    yield {
      turn: score.turn,
      record: turn.record,
      session: score.session,
      group: turn.group,
      score: score.score,
      subject: score.subject,
      key: turn.key,
      version: score.version,
      reward: score.reward,
      hint: score.hint,
    }
  }
}

export const sealAnew = (
  turns: readonly ScoredTurn[],
  before: Baselines,
  batch: Pick<BatchSealed, 'prev' | 'policy' | 'number' | 'parent' | 'seed' | 'loss' | 'settings' | 'at'>,
): BatchSealed => {
  const { items, after } = advantages(turns, before, rulesOf(batch.settings))
  return {
    type: 'BatchSealed',
    ...batch,
    dropped: [],
    baselines: after,
    items: turns.map(({ group: _, key: __, ...turn }, i) => ({
      ...turn,
      baseline: items[i]?.baseline ?? 0,
      advantage: items[i]?.advantage ?? 0,
    })),
  }
}
