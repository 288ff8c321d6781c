/** Everything the trainer knows: one fold per topic, side by side. Topics meet in decide.ts only. */
import {
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  type Event,
  type Logged,
  type MemoryScores,
  type MemoryTurns,
  type MemoryUpdates,
  type MemoryWeights,
  type FoldOutcome,
  type Queue,
  type ScoresEvent,
  type TurnsEvent,
  type UpdatesEvent,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'
import { arrived, discarded, scored, spent, type PendingState } from './pending.ts'

export type TrainerState = PendingState & { weights: WeightsState }
export type MemoryTrainer = Omit<TrainerState, 'turns' | 'scores' | 'updates' | 'weights' | 'pending' | 'keys'> & {
  turns: MemoryTurns
  scores: MemoryScores
  updates: MemoryUpdates
  weights: MemoryWeights
  pending: Map<string, Queue>
  keys: Map<string, number>
}

export const initialState = (policy: string): MemoryTrainer => ({
  policy,
  turns: initialTurns(),
  scores: initialScores(),
  updates: initialUpdates(),
  weights: initialWeights(),
  pending: new Map(),
  keys: new Map(),
})

/**
 * Null for a record of another policy or one that the trainer does not use. Branches are handled by the replay that
 * makes them.
 */
export const evolve = (state: TrainerState, logged: Logged<Event>): FoldOutcome | null => {
  switch (logged.topic) {
    case 'turns': {
      const event = logged.event as TurnsEvent
      const fold = (): FoldOutcome => foldTurns(state.turns, logged as Logged<TurnsEvent>)
      if (event.type === 'SessionClosed' && event.discarded === true) {
        return discarded(
          state,
          (state.turns.sessions.get(event.session)?.turns ?? []).map(({ turn }) => turn),
          fold,
        )
      }
      const outcome = fold()
      if ('answer' in event) arrived(state, event.turn)
      return outcome
    }
    case 'weights':
      return logged.key === state.policy ? foldWeights(state.weights, logged as Logged<WeightsEvent>) : null
    case 'scores': {
      const event = logged.event as ScoresEvent
      if (event.policy !== state.policy) return null
      const outcome = foldScores(state.scores, logged as Logged<ScoresEvent>)
      if (outcome.counted && event.type !== 'TurnSkipped') scored(state, event)
      return outcome
    }
    case 'updates': {
      const event = logged.event as UpdatesEvent
      if (event.policy !== state.policy) return null
      const outcome = foldUpdates(state.updates, logged as Logged<UpdatesEvent>)
      if (outcome.counted && event.type === 'BatchSealed') {
        for (const { turn } of [...event.items, ...event.dropped]) spent(state, turn)
      }
      return outcome
    }
    case 'blobs':
    case 'upgrades':
      return null
  }
}
