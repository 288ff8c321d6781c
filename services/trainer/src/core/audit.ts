/**
 * Audit of batches: derives each batch again from the records that it names (turns, scores, baselines of the previous
 * batch, advantages, parent) and names the record of the first difference.
 */
import {
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  taskOf,
  updateLine,
  weightLine,
  type BatchSealed,
  type Event,
  type Logged,
  type ScoresEvent,
  type ScoresState,
  type Table,
  type TurnsEvent,
  type TurnsState,
  type UpdatesEvent,
  type UpdatesState,
  type VersionRejected,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'
import { combine } from './baseline.ts'
import { advantagesOf, outcomeOf } from './episodes.ts'

export type Difference = { topic: string; key: string; record: string; type: string; what: string }

/** An append-only list: an array, or a table on disk. */
export type Series<T> = { readonly length: number; push(item: T): unknown; at(index: number): T | undefined }

/** The state when a batch was sealed. `repeated`: its turns that an earlier batch had taken or dropped. */
export type Sealing = { baselines: BatchSealed['baselines']; repeated: string[] }

/** Collections are read by key or by index, so they can be tables on disk. Other policies are branches. */
export type AuditState = {
  policy: string
  turns: TurnsState
  /** By policy. */
  scores: Table<string, ScoresState>
  updates: UpdatesState
  weights: WeightsState
  /** Counted score records by record id, including revised ones and those of other policies. */
  scoreRecords: Table<string, ScoresEvent>
  /** All turns in log order. */
  turnOrder: Series<string>
  /** By policy: scored turns in the order of their first scores. */
  scored: Table<string, Series<string>>
  /** By policy: batches in the order of the chain. */
  batches: Table<string, Series<string>>
  /** Moves of the policy's head; `at` in ms since the epoch. */
  moves: Series<{ to: number; at: number }>
  /** By the record id of the update. */
  rejected: Table<string, VersionRejected>
  /** By the record id of the policy's batch. */
  sealings: Table<string, Sealing>
  /** By turn: when a batch of the policy took or dropped it, ms since the epoch. */
  spentAt: Table<string, number>
}

const byPolicy = <T>(create: () => T): Table<string, T> => {
  const states = new Map<string, T>()
  const get = (policy: string): T => states.get(policy) ?? states.set(policy, create()).get(policy)!
  return { get, has: () => true, set: () => undefined, delete: () => undefined }
}

/** An empty state in memory. */
export const initialAudit = (policy: string): AuditState => ({
  policy,
  turns: initialTurns(),
  scores: byPolicy(initialScores),
  updates: initialUpdates(),
  weights: initialWeights(),
  scoreRecords: new Map(),
  turnOrder: [],
  scored: byPolicy<string[]>(() => []),
  batches: byPolicy<string[]>(() => []),
  moves: [],
  rejected: new Map(),
  sealings: new Map(),
  spentAt: new Map(),
})

/** Folds one record. Topics may be read in any order, since no topic is compared with another here. */
export const evolveAudit = (state: AuditState, logged: Logged<Event>): void => {
  if (logged.topic === 'turns') evolveTurns(state, logged as Logged<TurnsEvent>)
  else if (logged.topic === 'weights') evolveWeights(state, logged as Logged<WeightsEvent>)
  else if (logged.topic === 'updates') evolveUpdates(state, logged as Logged<UpdatesEvent>)
  else if (logged.topic === 'scores') evolveScores(state, logged as Logged<ScoresEvent>)
}

const evolveTurns = (state: AuditState, logged: Logged<TurnsEvent>): void => {
  const { event } = logged
  if (foldTurns(state.turns, logged).counted && 'answer' in event) state.turnOrder.push(event.turn)
}

const evolveScores = (state: AuditState, logged: Logged<ScoresEvent>): void => {
  const { key, id, event } = logged
  const scores = state.scores.get(key) ?? initialScores()
  const first = !scores.turns.has(event.turn)
  if (!foldScores(scores, logged).counted) return
  state.scoreRecords.set(id, event)
  if (first) state.scored.get(key)?.push(event.turn)
}

const evolveWeights = (state: AuditState, logged: Logged<WeightsEvent>): void => {
  const { event } = logged
  if (!foldWeights(state.weights, logged).counted || event.policy !== state.policy) return
  if (event.type === 'VersionPublished') state.moves.push({ to: event.number, at: event.at })
  else if (event.type === 'HeadMoved') state.moves.push({ to: event.to, at: event.at })
  else if (event.type === 'VersionRejected' && !state.rejected.has(event.update))
    state.rejected.set(event.update, event)
}

const evolveUpdates = (state: AuditState, logged: Logged<UpdatesEvent>): void => {
  const { event, id } = logged
  const sealing = event.type === 'BatchSealed' && event.policy === state.policy ? sealingOf(state, event) : null
  if (!foldUpdates(state.updates, logged).counted || event.type !== 'BatchSealed') return
  state.batches.get(event.policy)?.push(id)
  if (!sealing) return
  state.sealings.set(id, sealing)
  for (const { turn } of [...event.items, ...event.dropped]) state.spentAt.set(turn, event.at)
}

const sealingOf = (state: AuditState, { items, baselines, policy }: BatchSealed): Sealing => {
  const means = updateLine(state.updates, policy).baselines
  const subjects = new Set([...items, ...baselines].map(({ subject }) => subject)).add('')
  return {
    baselines: [...subjects].flatMap((subject) => {
      const baseline = means.get(subject)
      return baseline ? [{ subject, ...baseline }] : []
    }),
    repeated: items.filter(({ turn }) => state.spentAt.has(turn)).map(({ turn }) => turn),
  }
}

/** The policy's batches in the order of the chain, each with its first difference or null. */
export function* auditBatches(
  state: AuditState,
): Generator<{ id: string; sealed: BatchSealed; difference: Difference | null }> {
  const batches = state.batches.get(state.policy)
  for (let i = 0; i < (batches?.length ?? 0); i += 1) {
    const batch = updateLine(state.updates, state.policy).byId.get(batches?.at(i) ?? '')
    if (batch) yield { id: batch.id, sealed: batch.sealed, difference: auditBatch(state, batch) }
  }
}

/** The first difference of a batch, or null. Batches of branches are not audited here and give null. */
export const auditBatch = (
  state: AuditState,
  { id, sealed }: { id: string; sealed: BatchSealed },
): Difference | null => {
  const sealing = state.sealings.get(id)
  if (!sealing) return null
  const baselines = new Map(sealing.baselines.map(({ subject, ...baseline }) => [subject, baseline]))
  const inBatch = (what: string): Difference => ({
    topic: 'updates',
    key: sealed.policy,
    record: id,
    type: 'BatchSealed',
    what,
  })
  for (const item of sealed.items) {
    const turn = state.turns.turns.get(item.turn)
    if (turn?.record !== item.record)
      return {
        topic: 'turns',
        key: item.session,
        record: item.record,
        type: 'TurnCaptured',
        what: turn ? `turn ${item.turn} is now record ${turn.record}` : `turn ${item.turn} is not on the log`,
      }
    const score = state.scoreRecords.get(item.score)
    if (!score || score.turn !== item.turn)
      return {
        topic: 'scores',
        key: sealed.policy,
        record: item.score,
        type: 'TurnScored',
        what: `the score of turn ${item.turn} that batch ${sealed.number} names is not on the log`,
      }
    const wrongReward = auditReward(state, sealed, item, score)
    if (wrongReward) return wrongReward === 'reward' ? inBatch(`reward of turn ${item.turn}`) : wrongReward
    if (!sameHint(score.type === 'TurnSkipped' ? null : score.hint, item.hint))
      return inBatch(`hint of turn ${item.turn}`)
    if (sealing.repeated.includes(item.turn)) return inBatch(`turn ${item.turn} is in an earlier batch`)
  }
  const rewarded = sealed.items.map((item) => {
    const { group = item.turn, key = null } = state.turns.turns.get(item.turn) ?? {}
    const session = item.closing ? state.turns.sessions.get(item.session) : undefined
    return { ...item, key, group, task: session ? taskOf(session) : null }
  })
  const derived = advantagesOf(rewarded, baselines, sealed.settings)
  const wrong = sealed.items.findIndex(
    (item, i) => derived.items[i]?.baseline !== item.baseline || derived.items[i]?.advantage !== item.advantage,
  )
  if (wrong >= 0) return inBatch(`advantage of turn ${sealed.items[wrong]?.turn}`)
  if (JSON.stringify(derived.after) !== JSON.stringify(sealed.baselines)) return inBatch('baselines')
  const parent = weightLine(state.weights, sealed.policy).versions.get(sealed.parent.version)
  if (!parent || parent.adapter !== sealed.parent.adapter || parent.state !== sealed.parent.state)
    return inBatch(`parent version ${sealed.parent.version}`)
  return null
}

/** Whether a reward is not that of the score and the outcome that its item names, or the outcome is not on the log. */
const auditReward = (
  state: AuditState,
  { number, settings }: BatchSealed,
  item: BatchSealed['items'][number],
  score: ScoresEvent,
): 'reward' | Difference | null => {
  const turn = state.turns.turns.get(item.turn)
  const turnScore = score.type === 'TurnSkipped' ? null : score.reward
  const outcome = item.closing && turn ? outcomeOf(state, turn) : null
  if (item.closing && (outcome?.closing !== item.closing || outcome.value !== item.outcome))
    return {
      topic: 'turns',
      key: item.session,
      record: item.closing,
      type: 'SessionClosed',
      what: `the outcome of turn ${item.turn} that batch ${number} names is not on the log`,
    }
  if (outcome ? turnScore !== item.turnScore : turnScore === null) return 'reward'
  const reward = combine(turnScore, outcome?.value ?? null, settings.turnScoreWeight ?? 0)
  return reward === item.reward ? null : 'reward'
}

const sameHint = (a: { bytes: Uint8Array } | null, b: { bytes: Uint8Array } | null): boolean =>
  a === null || b === null ? a === b : Buffer.compare(a.bytes, b.bytes) === 0
