/** Selects the turns of the next batch and makes its BatchSealed record, before any arithmetic. */
import {
  derivedId,
  lineageDistance,
  updateLine,
  weightLine,
  type BatchSealed,
  type Settings,
  type WeightLine,
} from '@instar/events'
import { advantages, rulesOf } from './baseline.ts'
import { lossMode } from './loss-modes.ts'
import { choose, countUsable, type ChoiceSettings, type UsableCount } from './choice.ts'
import { leftOver, unusable } from './pending.ts'
import type { TrainerState } from './state.ts'

export type BatchSettings = ChoiceSettings & {
  /** Updates between the version that spoke and the head, along the lineage. */
  staleness: number
  loss: string
  settings: Settings
}

/*
 * What a record of a batch holds is bounded whatever its turns are called, since a log refuses more than 8 MiB less
 * 64 KiB (MAX_RECORD_BYTES of packages/log). An item's id, subject and hint have MOST_BYTES at most (pending.ts); its
 * session and its subject's baseline say part of them again. So an item is below 10 KiB, and 512 of them with the
 * candidates of the last one's request below 6.3 MiB; what is dropped has MOST_DROPPED_BYTES, and the rest of it goes
 * with later batches.
 */
export const MOST_ITEMS = 512
export const MOST_DROPPED = 2000
export const MOST_DROPPED_BYTES = 256 << 10

/** Null until `batchSize` usable turns wait. The candidates of a request go together, if need be beyond `batchSize`. */
export const sealBatch = (state: TrainerState, options: BatchSettings, now: number): BatchSealed | null => {
  const updates = updateLine(state.updates, state.policy)
  const weights = weightLine(state.weights, state.policy)
  const head = weights.versions.get(weights.head)
  const versions = usableVersions(weights, options.staleness)
  if (!head) return null
  const { usable, held } = countUsable(state, versions, options, now)
  if (usable - held < options.batchSize) return null
  const chosen = choose(state, versions, options, now)
  if (chosen.length < options.batchSize) return null
  const number = updates.count + 1
  const { items, after } = advantages(chosen, updates.baselines, rulesOf(options.settings))
  return {
    type: 'BatchSealed',
    prev: updates.chain.tip,
    policy: state.policy,
    number,
    parent: { version: head.version, adapter: head.adapter, state: head.state },
    items: chosen.map(({ group: _, key: __, ...item }, i) => {
      const { baseline, advantage } = items[i] ?? { baseline: 0, advantage: 0 }
      return { ...item, baseline, advantage }
    }),
    dropped: drop(state, weights, versions),
    baselines: after,
    seed: seedOf(state.policy, number),
    loss: options.loss,
    settings: withinGate(options.settings, weights.refusals),
    at: now,
  }
}

/** Refusals in a row after which the bound is not halved again. */
const MOST_HALVINGS = 4

/** The same update again would be refused again: each refusal in a row halves the bound of the next step. */
const withinGate = (settings: Settings, refusals: number): Settings => {
  const { klParentMax } = settings
  if (klParentMax === undefined || refusals === 0) return settings
  return { ...settings, klParentMax: klParentMax / 2 ** Math.min(refusals, MOST_HALVINGS) }
}

/** Usable turns that wait, and how many of them are beyond the shares of their keys. */
export const waiting = (state: TrainerState, options: BatchSettings, now: number): UsableCount =>
  countUsable(state, usableVersions(weightLine(state.weights, state.policy), options.staleness), options, now)

/** The head and its ancestors that are not stale, the oldest first: its turns are the next to be of no use. */
const usableVersions = (line: WeightLine, staleness: number): number[] => {
  const versions: number[] = []
  for (let at: number | null = line.head; at !== null && versions.length <= staleness;) {
    versions.unshift(at)
    const parent: number | null = line.versions.get(at)?.parent ?? null
    at = parent !== null && parent < at ? parent : null
  }
  return versions
}

/** Those that no batch will take any more, visibly, as many as a record has room for. */
const drop = (state: TrainerState, line: WeightLine, versions: readonly number[]): BatchSealed['dropped'] => {
  const dropped: BatchSealed['dropped'] = []
  const reasons = new Map<number, string>()
  let bytes = 0
  for (const { turn, version } of leftOver(state, versions)) {
    const known = state.turns.turns.get(turn)
    const onLineage = (of: number): boolean => lineageDistance(line, of, line.head) !== null
    if (version !== null && !reasons.has(version)) reasons.set(version, onLineage(version) ? 'stale' : 'not_on_lineage')
    const own = known && unusable(state.policy, known)
    const reason = (version === null ? own : reasons.get(version)) ?? 'unusable'
    bytes += Buffer.byteLength(turn) + Buffer.byteLength(reason)
    if (dropped.length >= MOST_DROPPED || bytes > MOST_DROPPED_BYTES) break
    dropped.push({ turn, reason })
  }
  return dropped
}

/** 31 bits of the batch's identity: the same batch draws the same numbers wherever it is computed. */
const seedOf = (policy: string, number: number): number =>
  Number.parseInt(derivedId('seed', policy, number).slice(0, 8), 16) >>> 1

/**
 * False when neither an advantage nor a hint on a failed turn would move a weight, by the loss that the batch names.
 */
export const hasSignal = ({ items, loss }: Pick<BatchSealed, 'items' | 'loss'>): boolean => {
  const mode = lossMode(loss)
  return items.some(
    ({ advantage, reward, hint }) =>
      (mode.advantages && Math.abs(advantage) > 1e-6) || (mode.hints && reward < 0 && hint !== null),
  )
}
