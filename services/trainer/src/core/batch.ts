/** Which turns the next batch takes, and the record that says so before any arithmetic. */
import { derivedId, lineageDistance, updateLine, weightLine, type BatchItem, type BatchSealed, type Settings } from '@instar/events'
import { advantages } from './baseline.ts'
import type { TrainerState } from './state.ts'

export type BatchSettings = {
  /** Turns of a batch. */
  batchSize: number
  /** Updates between the version that spoke and the head, along the lineage. */
  staleness: number
  /** How long the turns of a request wait for a candidate of theirs that is still to be sampled or judged, ms from the first score. */
  groupWaitMs: number
  loss: string
  settings: Settings
}

type Chosen = { items: Omit<BatchItem, 'baseline' | 'advantage'>[]; groups: string[]; dropped: { turn: string; reason: string }[] }

/** Null until `batchSize` usable turns wait. The candidates of a request go together, if need be beyond `batchSize`. */
export const sealBatch = (state: TrainerState, options: BatchSettings, now: number): BatchSealed | null => {
  const updates = updateLine(state.updates, state.policy)
  const weights = weightLine(state.weights, state.policy)
  const head = weights.versions.get(weights.head)
  if (state.pending.size < options.batchSize) return null
  const { items, groups, dropped } = choose(state, options, now)
  if (!head || items.length < options.batchSize) return null
  const number = updates.count + 1
  const { items: valued, after } = advantages(items.map((item, i) => ({ subject: item.subject, group: groups[i] ?? item.turn, reward: item.reward })), updates.baselines)
  return {
    type: 'BatchSealed', prev: updates.chain.tip, policy: state.policy, number,
    parent: { version: head.version, adapter: head.adapter, state: head.state },
    items: items.map((item, i) => ({ ...item, baseline: valued[i]?.baseline ?? 0, advantage: valued[i]?.advantage ?? 0 })),
    dropped, baselines: after, seed: seedOf(state.policy, number), loss: options.loss, settings: options.settings, at: now,
  }
}

/** Takes pending turns in log order; those that no batch will ever use are dropped, visibly, on the way. */
const choose = (state: TrainerState, options: BatchSettings, now: number): Chosen => {
  const line = weightLine(state.weights, state.policy)
  const chosen: Chosen = { items: [], groups: [], dropped: [] }
  const taken = new Set<string>()
  for (const first of state.pending) {
    if (chosen.items.length >= options.batchSize) break
    for (const id of together(state, first, options.groupWaitMs, now)) {
      const turn = state.turns.turns.get(id)
      const score = state.scores.turns.get(id)
      if (taken.has(id) || !turn || !score || score.reward === null) continue
      taken.add(id)
      if (turn.status !== 'complete' || !turn.trainable || turn.policy !== state.policy) {
        chosen.dropped.push({ turn: id, reason: turn.reason ?? turn.status })
        continue
      }
      const distance = lineageDistance(line, turn.version, line.head)
      if (distance === null || distance > options.staleness) {
        chosen.dropped.push({ turn: id, reason: distance === null ? 'not_on_lineage' : 'stale' })
        continue
      }
      chosen.items.push({ turn: id, record: turn.record, session: turn.session, score: score.score, subject: score.subject, version: turn.version, reward: score.reward, hint: score.hint })
      chosen.groups.push(turn.group)
    }
  }
  return chosen
}

/** The turn and, where candidates of its request are sampled in the background, those with it; nothing while one of them is to come. */
const together = (state: TrainerState, id: string, waitMs: number, now: number): string[] => {
  const turn = state.turns.turns.get(id)
  if (!turn || turn.candidates === 1) return [id]
  const group = (state.turns.sessions.get(turn.session)?.turns ?? []).filter((one) => one.group === turn.group)
  if (group.filter(({ shown }) => shown).length === turn.candidates) return [id]
  const scoredAt = group.flatMap((one) => state.scores.turns.get(one.turn)?.at ?? [])
  if (scoredAt.length < turn.candidates && now < Math.min(...scoredAt) + waitMs) return []
  return group.flatMap((one) => (state.pending.has(one.turn) ? [one.turn] : []))
}

/** 31 bits of the batch's identity: the same batch draws the same numbers wherever it is computed. */
const seedOf = (policy: string, number: number): number => Number.parseInt(derivedId('seed', policy, number).slice(0, 8), 16) >>> 1

/** False when neither an advantage nor a hint on a failed turn would move a weight. */
export const hasSignal = (batch: BatchSealed): boolean =>
  batch.items.some((item) => Math.abs(item.advantage) > 1e-6 || (item.reward < 0 && item.hint !== null))
