/** The state of an audit: the folds of the log, and what the policy's batches were sealed from. */
import {
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  isEpisodeRecord,
  updateLine,
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
  else if (logged.topic === 'scores' && !isEpisodeRecord(logged.event))
    evolveScores(state, logged as Logged<ScoresEvent>)
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
  // The fold of `turns` says what the score repeats of its turn.
  const { of: _, ...score } = event
  state.scoreRecords.set(id, score)
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
