/** The trainer's state: one fold per topic, and the queues of pending turns. decide.ts combines them. */
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
import { EpisodeIndex } from './episode-index.ts'
import { addScored, moveTurns, removePending, removeSkipped, turnRead, type PendingState } from './pending.ts'

export type TrainerState = PendingState & { weights: WeightsState }
type Queued = 'pending' | 'episodes'
export type MemoryTrainer = Omit<TrainerState, 'turns' | 'scores' | 'updates' | 'weights' | Queued | 'keys'> & {
  turns: MemoryTurns
  scores: MemoryScores
  updates: MemoryUpdates
  weights: MemoryWeights
  pending: Map<string, Queue>
  episodes: Map<string, Queue>
  keys: Map<string, number>
}

export const initialState = (policy: string): MemoryTrainer => ({
  policy,
  turns: initialTurns(),
  scores: initialScores(),
  updates: initialUpdates(),
  weights: initialWeights(),
  pending: new Map(),
  episodes: new Map(),
  index: new EpisodeIndex(),
  keys: new Map(),
})

/**
 * Folds one record. Null for a topic that the trainer does not use and for records of other policies, branches among
 * them.
 */
export const evolve = (state: TrainerState, logged: Logged<Event>): FoldOutcome | null => {
  switch (logged.topic) {
    case 'turns': {
      const event = logged.event as TurnsEvent
      state.index.touch(event.session)
      const fold = (): FoldOutcome => foldTurns(state.turns, logged as Logged<TurnsEvent>)
      if (event.type === 'SessionClosed') {
        const turns = state.turns.sessions.get(event.session)?.turns ?? []
        const moves = event.discarded === true || (event.outcome ?? null) !== null
        return moves || turns.some(({ task }) => task !== null)
          ? moveTurns(
              state,
              turns.map(({ turn }) => turn),
              fold,
            )
          : fold()
      }
      const outcome = fold()
      if ('answer' in event) turnRead(state, event.turn)
      return outcome
    }
    case 'weights':
      return logged.key === state.policy ? foldWeights(state.weights, logged as Logged<WeightsEvent>) : null
    case 'scores': {
      if (isEpisodeRecord(logged.event)) return null
      const event = logged.event as ScoresEvent
      if (event.policy !== state.policy) return null
      const outcome = foldScores(state.scores, logged as Logged<ScoresEvent>)
      if (outcome.counted) {
        if (event.type === 'TurnSkipped') removeSkipped(state, event.turn)
        else addScored(state, event)
      }
      return outcome
    }
    case 'updates': {
      const event = logged.event as UpdatesEvent
      if (event.policy !== state.policy) return null
      const outcome = foldUpdates(state.updates, logged as Logged<UpdatesEvent>)
      if (outcome.counted && event.type === 'BatchSealed') {
        for (const { turn } of [...event.items, ...event.dropped]) removePending(state, turn)
      }
      return outcome
    }
    case 'blobs':
    case 'upgrades':
      return null
  }
}
