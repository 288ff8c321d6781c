/**
 * Re-derives every batch from the records that it names: turns by record id, scores by record id, baselines
 * from the batch before, advantages, parent. What differs is named by the record in which it was found.
 */
import { foldTurns, foldUpdates, foldWeights, initialScores, initialTurns, initialUpdates, initialWeights, foldScores, updateLine, weightLine, type BatchSealed, type Event, type Logged, type MemoryScores, type ScoresEvent, type TurnsEvent, type UpdatesEvent, type WeightsEvent } from '@instar/events'
import { advantages, rulesOf } from './baseline.ts'
import type { MemoryTrainer } from './state.ts'

export type Difference = { topic: string; key: string; record: string; type: string; what: string }

export type AuditState = Omit<MemoryTrainer, 'pending' | 'keys'> & {
  /** Counted score records by id, also those revised later and those of other policies. */
  scoreRecords: Map<string, ScoresEvent>
  others: Map<string, MemoryScores>
}

export const initialAudit = (policy: string): AuditState => ({
  policy, turns: initialTurns(), scores: initialScores(), updates: initialUpdates(), weights: initialWeights(), scoreRecords: new Map(), others: new Map(),
})

/** Topics may be read one after the other: nothing here tests one topic against another. */
export const evolveAudit = (state: AuditState, logged: Logged<Event>): void => {
  if (logged.topic === 'turns') foldTurns(state.turns, logged as Logged<TurnsEvent>)
  else if (logged.topic === 'weights') foldWeights(state.weights, logged as Logged<WeightsEvent>)
  else if (logged.topic === 'updates') foldUpdates(state.updates, logged as Logged<UpdatesEvent>)
  else if (logged.topic === 'scores' && foldScores(scoresOf(state, logged.key), logged as Logged<ScoresEvent>).counted) state.scoreRecords.set(logged.id, logged.event as ScoresEvent)
}

const scoresOf = (state: AuditState, policy: string): MemoryScores => {
  if (policy === state.policy) return state.scores
  const scores = state.others.get(policy) ?? initialScores()
  state.others.set(policy, scores)
  return scores
}

/** Per batch of the policy, in order, the first difference or null. */
export const auditBatches = (state: AuditState): { id: string; sealed: BatchSealed; difference: Difference | null }[] => {
  const spent = new Set<string>()
  const baselines = new Map<string, { value: number; count: number }>()
  return updateLine(state.updates, state.policy).batches.map(({ id, sealed }) => {
    const difference = auditBatch(state, id, sealed, spent, baselines)
    for (const { turn } of [...sealed.items, ...sealed.dropped]) spent.add(turn)
    for (const { subject, ...baseline } of sealed.baselines) baselines.set(subject, baseline)
    return { id, sealed, difference }
  })
}

const auditBatch = (state: AuditState, id: string, sealed: BatchSealed, spent: ReadonlySet<string>, baselines: ReadonlyMap<string, { value: number; count: number }>): Difference | null => {
  const here = (what: string): Difference => ({ topic: 'updates', key: sealed.policy, record: id, type: 'BatchSealed', what })
  for (const item of sealed.items) {
    const turn = state.turns.turns.get(item.turn)
    if (turn?.record !== item.record) return { topic: 'turns', key: item.session, record: item.record, type: 'TurnCaptured', what: turn ? `turn ${item.turn} is now record ${turn.record}` : `turn ${item.turn} is not on the log` }
    const score = state.scoreRecords.get(item.score)
    if (!score || score.turn !== item.turn) return { topic: 'scores', key: sealed.policy, record: item.score, type: 'TurnScored', what: `the score of turn ${item.turn} that batch ${sealed.number} names is not on the log` }
    if (score.type === 'TurnSkipped' || score.reward !== item.reward) return here(`reward of turn ${item.turn}`)
    if (!sameHint(score.hint, item.hint)) return here(`hint of turn ${item.turn}`)
    if (spent.has(item.turn)) return here(`turn ${item.turn} is in an earlier batch`)
  }
  const rewarded = sealed.items.map(({ turn, subject, reward }) => {
    const { group = turn, key = null } = state.turns.turns.get(turn) ?? {}
    return { subject, key, group, reward }
  })
  const again = advantages(rewarded, baselines, rulesOf(sealed.settings))
  const wrong = sealed.items.findIndex((item, i) => again.items[i]?.baseline !== item.baseline || again.items[i]?.advantage !== item.advantage)
  if (wrong >= 0) return here(`advantage of turn ${sealed.items[wrong]?.turn}`)
  if (JSON.stringify(again.after) !== JSON.stringify(sealed.baselines)) return here('baselines')
  const parent = weightLine(state.weights, sealed.policy).versions.get(sealed.parent.version)
  if (!parent || parent.adapter !== sealed.parent.adapter || parent.state !== sealed.parent.state) return here(`parent version ${sealed.parent.version}`)
  return null
}

const sameHint = (a: { bytes: Uint8Array } | null, b: { bytes: Uint8Array } | null): boolean =>
  a === null || b === null ? a === b : Buffer.compare(a.bytes, b.bytes) === 0
