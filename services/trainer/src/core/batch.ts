/**
 * Seals the next batch: selects its turns and builds its BatchSealed record, before the update is computed. decide.ts
 * says when; the batch is sealed once that record is on the log.
 */
import {
  derivedId,
  hintOf,
  lineageDistance,
  lossMode,
  updateLine,
  weightLine,
  type BatchSealed,
  type Settings,
  type WeightLine,
} from '@instar/events'
import { advantagesOf, countEpisodes as countIn, nextReadyAt as nextReadyIn } from './episodes.ts'
import { choose, countUsable, type ChoiceSettings, type ChosenTurn, type UsableCount } from './choice.ts'
import { withLearningRate } from './remote-step.ts'
import { notUsableWith, unusable } from './pending.ts'
import type { TrainerState } from './state.ts'

export type BatchSettings = ChoiceSettings & {
  /** The largest number of updates on the lineage from the version that sampled a turn to the head. */
  staleness: number
  loss: string
  settings: Settings
}

/*
 * The size of a batch's record is bounded for ids of any length, because a log refuses records above 8 MiB less 64 KiB
 * (MAX_RECORD_BYTES of packages/log). Id, subject and hint of an item have MAX_ITEM_BYTES together (pending.ts), and its
 * session and the baseline of its subject repeat part of them: an item is below 10 KiB, and 512 items with the candidates
 * of the last request are below 6.3 MiB. Dropped turns have MAX_DROPPED_BYTES; the others are dropped with later batches.
 */
export const MAX_ITEMS = 512
export const MAX_DROPPED = 2000
export const MAX_DROPPED_BYTES = 256 << 10

/**
 * Null while fewer than `batchSize` usable turns are pending. The candidates of a request are in one batch, which may
 * then exceed `batchMax`. `now`: ms since the epoch.
 */
export const sealBatch = (state: TrainerState, options: BatchSettings, now: number): BatchSealed | null => {
  const ground = headGround(state, options)
  const chosen = ground ? choose(state, ground.versions, options, now) : []
  return ground && chosen.length >= options.batchSize ? sealOn(state, options, ground, chosen, now) : null
}

/**
 * What the next batch is computed from: the head, or the candidate that may become it (ahead.ts). `versions`: whose turns are
 * usable, newest first. `rejectionsInARow`: of the gate since the parent became the head.
 */
export type Ground = Pick<BatchSealed, 'parent'> & { versions: readonly number[]; rejectionsInARow: number }

/** Null: the line has no head. */
export const headGround = (state: TrainerState, { staleness }: Pick<BatchSettings, 'staleness'>): Ground | null => {
  const weights = weightLine(state.weights, state.policy)
  const head = weights.versions.get(weights.head)
  return head
    ? {
        parent: { version: head.version, adapter: head.adapter, state: head.state },
        versions: usableVersions(weights, staleness),
        rejectionsInARow: weights.rejectionsInARow,
      }
    : null
}

/** The record of a batch of these turns. */
export const sealOn = (
  state: TrainerState,
  options: BatchSettings,
  { parent, versions, rejectionsInARow }: Ground,
  chosen: readonly ChosenTurn[],
  now: number,
): BatchSealed => {
  const updates = updateLine(state.updates, state.policy)
  const weights = weightLine(state.weights, state.policy)
  const number = updates.count + 1
  const { items, after } = advantagesOf(chosen, updates.baselines, options.settings)
  return {
    type: 'BatchSealed',
    prev: updates.chain.tip,
    policy: state.policy,
    number,
    parent,
    items: chosen.map(({ group: _, key: __, task: ___, ...item }, i) => {
      const { baseline, advantage } = items[i] ?? { baseline: 0, advantage: 0 }
      return { ...item, baseline, advantage }
    }),
    dropped: drop(state, weights, versions),
    baselines: after,
    seed: seedOf(state.policy, number),
    loss: options.loss,
    settings: withinGate(withLearningRate(options.settings, updates.byId.get(updates.last)), rejectionsInARow),
    at: now,
  }
}

/** Consecutive rejections of the gate after which the bound is not halved again. */
const MAX_HALVINGS = 4

/** Halves the bound on the KL to the parent for each consecutive rejection: the same step would be rejected again. */
const withinGate = (settings: Settings, rejectionsInARow: number): Settings => {
  const { klParentMax } = settings
  if (klParentMax === undefined || rejectionsInARow === 0) return settings
  return { ...settings, klParentMax: klParentMax / 2 ** Math.min(rejectionsInARow, MAX_HALVINGS) }
}

/** The number of pending usable turns, and of those beyond the shares of their keys. */
export const countWaiting = (state: TrainerState, options: BatchSettings, now: number): UsableCount =>
  countUsable(state, usableVersions(weightLine(state.weights, state.policy), options.staleness), options, now)

/** The number of episodes that run or wait for others of their task, and of those that no decision examines yet. */
export const countEpisodes = (
  state: TrainerState,
  options: BatchSettings,
  now: number,
): { waiting: number; beyond: number } =>
  countIn(state, usableVersions(weightLine(state.weights, state.policy), options.staleness), options, now)

/** When the next group of episodes is ready although some are missing, ms since the epoch; null: none waits. */
export const nextReadyAt = (state: TrainerState, options: BatchSettings, now: number): number | null =>
  nextReadyIn(state, usableVersions(weightLine(state.weights, state.policy), options.staleness), options, now)

/** The head and its ancestors that are not stale, newest first: turns of the newest version are closest to the policy. */
export const usableVersions = (line: WeightLine, staleness: number): number[] => {
  const versions: number[] = []
  for (let at: number | null = line.head; at !== null && versions.length <= staleness;) {
    versions.push(at)
    const parent: number | null = line.versions.get(at)?.parent ?? null
    at = parent !== null && parent < at ? parent : null
  }
  return versions
}

/** Pending turns that no later batch can use, with reasons, up to the limits of a record. */
const drop = (state: TrainerState, line: WeightLine, versions: readonly number[]): BatchSealed['dropped'] => {
  const dropped: BatchSealed['dropped'] = []
  const reasons = new Map<number, string>()
  let bytes = 0
  for (const { turn, version } of notUsableWith(state, versions)) {
    const known = state.turns.turns.get(turn)
    const onLineage = (of: number): boolean => lineageDistance(line, of, line.head) !== null
    if (version !== null && !reasons.has(version)) reasons.set(version, onLineage(version) ? 'stale' : 'not_on_lineage')
    const own = known && unusable(state.policy, known)
    const reason = (version === null ? own : reasons.get(version)) ?? 'unusable'
    bytes += Buffer.byteLength(turn) + Buffer.byteLength(reason)
    if (dropped.length >= MAX_DROPPED || bytes > MAX_DROPPED_BYTES) break
    dropped.push({ turn, reason })
  }
  return dropped
}

/** The batch's seed: 31 bits of a hash of policy and number, so every computation of a batch draws the same numbers. */
const seedOf = (policy: string, number: number): number =>
  Number.parseInt(derivedId('seed', policy, number).slice(0, 8), 16) >>> 1

/** False if no item has a signal that the batch's loss uses: an advantage, or a hint with a negative reward. */
export const hasSignal = ({ items, loss }: Pick<BatchSealed, 'items' | 'loss'>): boolean => {
  const mode = lossMode(loss)
  return items.some(
    (item) => (mode.advantages && Math.abs(item.advantage) > 1e-6) || (mode.hints && hintOf(item) !== null),
  )
}
