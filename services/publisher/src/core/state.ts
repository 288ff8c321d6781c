/** Everything the publisher knows: the folds of `turns`, `scores`, `updates`, `weights`, side by side. */
import {
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  updateLine,
  weightLine,
  type Event,
  type Logged,
  type MemoryScores,
  type MemoryTurns,
  type MemoryUpdates,
  type MemoryWeights,
  type FoldOutcome,
  type Queue,
  type ScoresEvent,
  type ScoresState,
  type TurnsEvent,
  type TurnsState,
  type UpdatesEvent,
  type UpdatesState,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'

export type PublisherState = {
  policy: string
  turns: TurnsState
  scores: ScoresState
  updates: UpdatesState
  weights: WeightsState
  /** Batches with an update and no verdict, in order: a cache of updates − weights, the same in any interleaving. */
  unsettled: Queue
  /** The last turns whose score in force is positive, in the order in which it became so. */
  positive: Queue
}
export type MemoryPublisher = Omit<
  PublisherState,
  'turns' | 'scores' | 'updates' | 'weights' | 'unsettled' | 'positive'
> & {
  turns: MemoryTurns
  scores: MemoryScores
  updates: MemoryUpdates
  weights: MemoryWeights
  unsettled: Set<string>
  positive: Set<string>
}

/** How many turns `positive` holds: more than any evaluation asks for and a batch holds. */
const REMEMBERED = 1000

export const initialState = (policy: string): MemoryPublisher => ({
  policy,
  turns: initialTurns(),
  scores: initialScores(),
  updates: initialUpdates(),
  weights: initialWeights(),
  unsettled: new Set(),
  positive: new Set(),
})

/** Null: not this policy's, or not this service's affair. */
export const evolve = (state: PublisherState, logged: Logged<Event>): FoldOutcome | null => {
  switch (logged.topic) {
    case 'turns':
      return foldTurns(state.turns, logged as Logged<TurnsEvent>)
    case 'scores':
      return logged.key !== state.policy ? null : evolveScores(state, logged as Logged<ScoresEvent>)
    case 'updates':
      return evolveUpdates(state, logged as Logged<UpdatesEvent>)
    case 'weights':
      return evolveWeights(state, logged as Logged<WeightsEvent>)
    case 'blobs':
    case 'upgrades':
      return null
  }
}

const evolveScores = (state: PublisherState, logged: Logged<ScoresEvent>): FoldOutcome => {
  const { event } = logged
  const outcome = foldScores(state.scores, logged)
  if (!outcome.counted) return outcome
  if (event.type !== 'TurnSkipped' && event.reward > 0) state.positive.add(event.turn)
  else state.positive.delete(event.turn)
  if (state.positive.size > REMEMBERED)
    for (const oldest of state.positive) {
      state.positive.delete(oldest)
      break
    }
  return outcome
}

const evolveUpdates = (state: PublisherState, logged: Logged<UpdatesEvent>): FoldOutcome => {
  const { event, id } = logged
  const outcome = foldUpdates(state.updates, logged)
  if (!outcome.counted || event.policy !== state.policy || event.type === 'BatchSealed') return outcome
  if (event.type === 'UpdateComputed' && !weightLine(state.weights, state.policy).verdicts.has(id))
    state.unsettled.add(event.batch)
  else state.unsettled.delete(event.batch)
  return outcome
}

const evolveWeights = (state: PublisherState, logged: Logged<WeightsEvent>): FoldOutcome => {
  const { event } = logged
  const outcome = foldWeights(state.weights, logged)
  if (
    outcome.counted &&
    event.policy === state.policy &&
    (event.type === 'VersionPublished' || event.type === 'VersionRejected')
  ) {
    const { byUpdate, byId } = updateLine(state.updates, state.policy)
    const batch = byUpdate.get(event.update)
    // When a batch was computed twice, its last update is pending: a verdict on an earlier one does not settle it.
    if (batch !== undefined && byId.get(batch)?.update?.id === event.update) state.unsettled.delete(batch)
  }
  return outcome
}
