/** Everything the trainer knows: one fold per topic, side by side. Topics meet in decide.ts only. */
import {
  foldScores, foldTurns, foldUpdates, foldWeights, initialScores, initialTurns, initialUpdates, initialWeights, updateLine,
  type Event, type Logged, type Outcome, type ScoresEvent, type ScoresState, type TurnsEvent, type TurnsState, type UpdatesEvent, type UpdatesState, type WeightsEvent, type WeightsState,
} from '@instar/events'

export type TrainerState = {
  policy: string
  turns: TurnsState
  scores: ScoresState
  updates: UpdatesState
  weights: WeightsState
  /** Scored and not spent, in the order of their first scores: a cache of scores − updates, the same in any interleaving. */
  pending: Set<string>
}

export const initialState = (policy: string): TrainerState => ({
  policy, turns: initialTurns(), scores: initialScores(), updates: initialUpdates(), weights: initialWeights(), pending: new Set(),
})

/** Null: not this policy's, or not this service's affair. */
export const evolve = (state: TrainerState, logged: Logged<Event>): Outcome | null => {
  switch (logged.topic) {
    case 'turns':
      return foldTurns(state.turns, logged as Logged<TurnsEvent>)
    case 'weights':
      return foldWeights(state.weights, logged as Logged<WeightsEvent>)
    case 'scores': {
      const event = logged.event as ScoresEvent
      if (event.policy !== state.policy) return null
      const outcome = foldScores(state.scores, logged as Logged<ScoresEvent>)
      if (outcome.counted && event.type !== 'TurnSkipped' && !updateLine(state.updates, state.policy).spent.has(event.turn)) state.pending.add(event.turn)
      return outcome
    }
    case 'updates': {
      const event = logged.event as UpdatesEvent
      const outcome = foldUpdates(state.updates, logged as Logged<UpdatesEvent>)
      if (outcome.counted && event.policy === state.policy && event.type === 'BatchSealed') {
        for (const { turn } of [...event.items, ...event.dropped]) state.pending.delete(turn)
      }
      return outcome
    }
    case 'blobs':
      return null
  }
}
