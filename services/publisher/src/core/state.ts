/**
 * The publisher's state: one fold per topic, where scored turns are found, the updates without a verdict, and the latest turns with
 * a positive score. `turns` is not folded: what a measurement needs of a turn stands in its score, and the turn is read then.
 */
import {
  foldScores,
  foldUpdates,
  foldWeights,
  initialScores,
  initialUpdates,
  initialWeights,
  isEpisodeRecord,
  updateLine,
  weightLine,
  type Event,
  type Keys,
  type Logged,
  type MemoryScores,
  type MemoryUpdates,
  type MemoryWeights,
  type FoldOutcome,
  type Queue,
  type ScoredFacts,
  type ScoresEvent,
  type ScoresState,
  type Table,
  type UpdateComputed,
  type UpdateFailed,
  type UpdatesEvent,
  type UpdatesState,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'

/** What a score says of where its turn is. */
export type PlaceState = Pick<ScoredFacts, 'at' | 'finishedAt' | 'begunAt' | 'earlier'>

export type PublisherState = {
  policy: string
  /** Of turns whose score says so, which scores of earlier builds do not. */
  places: Table<string, PlaceState>
  scores: ScoresState
  updates: UpdatesState
  weights: WeightsState
  /** Batches with an update and no verdict, in order; the same for any order of reading `updates` and `weights`. */
  unsettled: Queue
  /**
   * The latest turns, trained on by no batch, whose current score is positive, in the order in which it became so; without those that
   * their score calls unusable.
   */
  positive: Queue
  /** Turns on which any line or branch was trained. */
  trained: Keys
}
export type MemoryPublisher = Omit<
  PublisherState,
  'places' | 'scores' | 'updates' | 'weights' | 'unsettled' | 'positive' | 'trained'
> & {
  places: Map<string, PlaceState>
  scores: MemoryScores
  updates: MemoryUpdates
  weights: MemoryWeights
  unsettled: Set<string>
  positive: Set<string>
  trained: Set<string>
}

/** Limit of `positive`: more than an evaluation needs beyond the turns of a batch. */
const MAX_POSITIVE = 1000

export const initialState = (policy: string): MemoryPublisher => ({
  policy,
  places: new Map(),
  scores: initialScores(),
  updates: initialUpdates(),
  weights: initialWeights(),
  unsettled: new Set(),
  positive: new Set(),
  trained: new Set(),
})

/** Folds one record. Null for scores of other policies and for topics that the publisher does not use. */
export const evolve = (state: PublisherState, logged: Logged<Event>): FoldOutcome | null => {
  switch (logged.topic) {
    case 'scores':
      return logged.key !== state.policy || isEpisodeRecord(logged.event)
        ? null
        : evolveScores(state, logged as Logged<ScoresEvent>)
    case 'updates':
      return evolveUpdates(state, logged as Logged<UpdatesEvent>)
    case 'weights':
      return evolveWeights(state, logged as Logged<WeightsEvent>)
    case 'turns':
    case 'blobs':
    case 'upgrades':
      return null
  }
}

const evolveScores = (state: PublisherState, logged: Logged<ScoresEvent>): FoldOutcome => {
  const { event } = logged
  const outcome = foldScores(state.scores, logged)
  if (!outcome.counted) return outcome
  const { of = null } = event
  if (of) {
    const { at, finishedAt, begunAt } = of
    const earlier = of.earlier ?? state.places.get(event.turn)?.earlier ?? null
    state.places.set(event.turn, { at, finishedAt, begunAt, earlier })
  }
  const isGood = event.type !== 'TurnSkipped' && event.reward > 0 && (of?.unusable ?? null) === null
  if (isGood && !state.trained.has(event.turn)) state.positive.add(event.turn)
  else state.positive.delete(event.turn)
  if (state.positive.size > MAX_POSITIVE)
    for (const oldest of state.positive) {
      state.positive.delete(oldest)
      break
    }
  return outcome
}

/** Whether the record ends the computation of a batch. */
const settles = (event: UpdatesEvent): event is UpdateComputed | UpdateFailed =>
  event.type === 'UpdateComputed' || event.type === 'UpdateFailed'

const evolveUpdates = (state: PublisherState, logged: Logged<UpdatesEvent>): FoldOutcome => {
  const { event, id } = logged
  const outcome = foldUpdates(state.updates, logged)
  if (outcome.counted && event.type === 'BatchSealed')
    for (const { turn } of event.items) {
      state.trained.add(turn)
      state.positive.delete(turn)
    }
  if (!outcome.counted || event.policy !== state.policy || !settles(event)) return outcome
  // An update of a batch that the line does not have would wait for ever: there is nothing to measure.
  const known = updateLine(state.updates, state.policy).byUpdate.has(id)
  if (event.type === 'UpdateComputed' && known && !weightLine(state.weights, state.policy).verdicts.has(id))
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
    if (batch !== undefined && byId.get(batch)?.update?.id === event.update) state.unsettled.delete(batch)
  }
  return outcome
}
