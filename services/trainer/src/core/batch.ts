/** Which turns the next batch takes, and the record that says so before any arithmetic. */
import {
  derivedId, lineageDistance, updateLine, weightLine, type BatchItem, type BatchSealed, type Settings, type WeightLine,
} from '@instar/events'
import { advantages } from './baseline.ts'
import { leftOver, ofVersion, unusable, waits } from './pending.ts'
import type { TrainerState } from './state.ts'

export type BatchSettings = {
  /** Turns of a batch; at most MOST_ITEMS. */
  batchSize: number
  /** Updates between the version that spoke and the head, along the lineage. */
  staleness: number
  /** How long turns wait for a candidate of their request that is to be sampled or judged, ms from the first score. */
  groupWaitMs: number
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
export const MOST_CANDIDATES = 128
export const MOST_DROPPED = 2000
export const MOST_DROPPED_BYTES = 256 << 10

/** Turns that a decision looks at to fill a batch, for each turn of it: many may wait for candidates beside them. */
const LOOKS = 64

type Chosen = Omit<BatchItem, 'baseline' | 'advantage'> & { group: string }

/** Null until `batchSize` usable turns wait. The candidates of a request go together, if need be beyond `batchSize`. */
export const sealBatch = (state: TrainerState, options: BatchSettings, now: number): BatchSealed | null => {
  const updates = updateLine(state.updates, state.policy)
  const weights = weightLine(state.weights, state.policy)
  const head = weights.versions.get(weights.head)
  const versions = usableVersions(weights, options.staleness)
  if (!head || countUsable(state, versions) < options.batchSize) return null
  const chosen = choose(state, versions, options, now)
  if (chosen.length < options.batchSize) return null
  const number = updates.count + 1
  const { items, after } = advantages(chosen, updates.baselines)
  return {
    type: 'BatchSealed', prev: updates.chain.tip, policy: state.policy, number,
    parent: { version: head.version, adapter: head.adapter, state: head.state },
    items: chosen.map(({ group: _, ...item }, i) => {
      const { baseline, advantage } = items[i] ?? { baseline: 0, advantage: 0 }
      return { ...item, baseline, advantage }
    }),
    dropped: drop(state, weights, versions), baselines: after,
    seed: seedOf(state.policy, number), loss: options.loss, settings: options.settings, at: now,
  }
}

/** Enough turns wait, though some of them may wait for candidates beside them. */
export const isEnough = (state: TrainerState, { batchSize, staleness }: BatchSettings): boolean =>
  countUsable(state, usableVersions(weightLine(state.weights, state.policy), staleness)) >= batchSize

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

const countUsable = (state: TrainerState, versions: readonly number[]): number =>
  versions.reduce((count, version) => count + ofVersion(state, version).size, 0)

/** Takes turns of each version in log order. */
const choose = (state: TrainerState, versions: readonly number[], options: BatchSettings, now: number): Chosen[] => {
  const chosen: Chosen[] = []
  const taken = new Set<string>()
  let looks = LOOKS * options.batchSize
  for (const version of versions) {
    for (const first of ofVersion(state, version)) {
      if (chosen.length >= options.batchSize || looks <= 0) return chosen
      looks -= 1
      for (const id of together(state, first, options.groupWaitMs, now)) {
        const turn = state.turns.turns.get(id)
        const score = state.scores.turns.get(id)
        if (taken.has(id) || !turn || !score || score.reward === null || !versions.includes(turn.version)) continue
        taken.add(id)
        chosen.push({
          turn: id, record: turn.record, session: turn.session, score: score.score, subject: score.subject,
          version: turn.version, reward: score.reward, hint: score.hint, group: turn.group,
        })
      }
    }
  }
  return chosen
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

/** The turn and, where candidates of its request are sampled in the background, those; nothing while one is to come. */
const together = (state: TrainerState, id: string, waitMs: number, now: number): string[] => {
  const turn = state.turns.turns.get(id)
  if (!turn || turn.candidates === 1) return [id]
  const group = (state.turns.sessions.get(turn.session)?.turns ?? []).filter((one) => one.group === turn.group)
  if (group.filter(({ shown }) => shown).length === turn.candidates) return [id]
  const scoredAt = group.flatMap((one) => state.scores.turns.get(one.turn)?.at ?? [])
  if (scoredAt.length < turn.candidates && now < Math.min(...scoredAt) + waitMs) return []
  const usable = group.filter((one) => waits(state, one.turn) && unusable(state.policy, one) === null)
  return usable.map((one) => one.turn).slice(0, MOST_CANDIDATES)
}

/** 31 bits of the batch's identity: the same batch draws the same numbers wherever it is computed. */
const seedOf = (policy: string, number: number): number =>
  Number.parseInt(derivedId('seed', policy, number).slice(0, 8), 16) >>> 1

/** False when neither an advantage nor a hint on a failed turn would move a weight. */
export const hasSignal = (batch: BatchSealed): boolean =>
  batch.items.some((item) => Math.abs(item.advantage) > 1e-6 || (item.reward < 0 && item.hint !== null))
