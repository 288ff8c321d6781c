/** Everything the publisher knows: the folds of `turns`, `scores`, `updates`, `weights`, side by side. */
import {
  foldScores, foldTurns, foldUpdates, foldWeights, initialScores, initialTurns, initialUpdates, initialWeights,
  type Event, type Logged, type Outcome, type ScoresEvent, type ScoresState, type TurnsEvent, type TurnsState, type UpdatesEvent, type UpdatesState, type WeightsEvent, type WeightsState,
} from '@instar/events'

export type PublisherState = { policy: string; turns: TurnsState; scores: ScoresState; updates: UpdatesState; weights: WeightsState }

export const initialState = (policy: string): PublisherState => ({
  policy, turns: initialTurns(), scores: initialScores(), updates: initialUpdates(), weights: initialWeights(),
})

/** Null: not this policy's, or not this service's affair. */
export const evolve = (state: PublisherState, logged: Logged<Event>): Outcome | null => {
  switch (logged.topic) {
    case 'turns': return foldTurns(state.turns, logged as Logged<TurnsEvent>)
    case 'scores': return logged.key !== state.policy ? null : foldScores(state.scores, logged as Logged<ScoresEvent>)
    case 'updates': return foldUpdates(state.updates, logged as Logged<UpdatesEvent>)
    case 'weights': return foldWeights(state.weights, logged as Logged<WeightsEvent>)
    case 'blobs': return null
  }
}
