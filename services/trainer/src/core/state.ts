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
  sessionOfTurn,
  type EpisodeRecord,
  type Event,
  type Logged,
  type MemoryScores,
  type MemoryTurns,
  type MemoryUpdates,
  type MemoryWeights,
  type FoldOutcome,
  type Queue,
  type ScoresEvent,
  type Table,
  type SessionClosed,
  type TurnsEvent,
  type UpdatesEvent,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'
import { EpisodeIndex, type Told } from './episode-index.ts'
import { addScored, moveTurns, removePending, removeSkipped, turnRead, type PendingState } from './pending.ts'
import { Ahead, enterScored, evolveBegun, evolveEnded, noteAhead, noteRead, removeTold } from './told.ts'

/**
 * `reads`: from which topic the state knows the turns. It follows `turns` until it has read all that was on the log when
 * scores began to say what a turn is; from then on `scores` alone (told.ts). `ahead` is in no snapshot. `says`: the policy,
 * if its last score said what its turn is.
 */
export type TrainerState = PendingState & {
  weights: WeightsState
  reads: 'turns' | 'scores'
  ahead: Ahead
  says: Table<string, boolean>
}
type Queued = 'pending' | 'episodes' | 'told' | 'says'
export type MemoryTrainer = Omit<TrainerState, 'turns' | 'scores' | 'updates' | 'weights' | Queued | 'keys'> & {
  turns: MemoryTurns
  scores: MemoryScores
  updates: MemoryUpdates
  weights: MemoryWeights
  pending: Map<string, Queue>
  episodes: Map<string, Queue>
  told: Map<string, Told>
  says: Map<string, boolean>
  keys: Map<string, number>
}

export const initialState = (policy: string): MemoryTrainer => ({
  policy,
  reads: 'turns',
  turns: initialTurns(),
  scores: initialScores(),
  updates: initialUpdates(),
  weights: initialWeights(),
  pending: new Map(),
  episodes: new Map(),
  told: new Map(),
  says: new Map(),
  ahead: new Ahead(),
  index: new EpisodeIndex(),
  keys: new Map(),
})

/**
 * Folds one record. Null for a topic that the trainer does not use and for records of other policies, branches among
 * them.
 */
export const evolve = (state: TrainerState, logged: Logged<Event>): FoldOutcome | null => {
  switch (logged.topic) {
    case 'turns':
      return state.reads === 'turns' ? evolveTurns(state, logged as Logged<TurnsEvent>) : null
    case 'weights':
      return logged.key === state.policy ? foldWeights(state.weights, logged as Logged<WeightsEvent>) : null
    case 'scores':
      return evolveScores(state, logged as Logged<ScoresEvent | EpisodeRecord>)
    case 'updates': {
      const event = logged.event as UpdatesEvent
      if (event.policy !== state.policy) return null
      const outcome = foldUpdates(state.updates, logged as Logged<UpdatesEvent>)
      if (outcome.counted && event.type === 'BatchSealed') {
        for (const { turn } of [...event.items, ...event.dropped]) {
          removePending(state, turn)
          removeTold(state, sessionOfTurn(turn))
        }
      }
      return outcome
    }
    case 'blobs':
    case 'upgrades':
      return null
  }
}

const evolveTurns = (state: TrainerState, logged: Logged<TurnsEvent>): FoldOutcome => {
  const { event } = logged
  state.index.touch(event.session)
  const fold = (): FoldOutcome => foldTurns(state.turns, logged)
  const outcome = event.type === 'SessionClosed' ? foldClosing(state, event, fold) : fold()
  noteRead(state, event)
  if ('answer' in event) turnRead(state, event.turn)
  return outcome
}

const foldClosing = (state: TrainerState, event: SessionClosed, fold: () => FoldOutcome): FoldOutcome => {
  const turns = state.turns.sessions.get(event.session)?.turns ?? []
  const moves = event.discarded === true || (event.outcome ?? null) !== null
  if (!moves && turns.every(({ task }) => task === null)) return fold()
  const ids = turns.map(({ turn }) => turn)
  return moveTurns(state, ids, fold)
}

const evolveScores = (state: TrainerState, logged: Logged<ScoresEvent | EpisodeRecord>): FoldOutcome | null => {
  const { event, id } = logged
  if (event.policy !== state.policy) return null
  if (isEpisodeRecord(event)) {
    if (state.reads === 'turns') noteAhead(state, event)
    else if (event.type === 'EpisodeBegun') evolveBegun(state, event)
    else evolveEnded(state, event)
    return null
  }
  const outcome = foldScores(state.scores, logged as Logged<ScoresEvent>)
  if (!outcome.counted) return outcome
  const says = (event.of ?? null) !== null
  if (!says) state.says.delete(event.policy)
  else if (!state.says.has(event.policy)) state.says.set(event.policy, true)
  if (state.reads === 'turns') noteAhead(state, event)
  else enterScored(state, event, id)
  if (event.type === 'TurnSkipped') removeSkipped(state, event.turn)
  else addScored(state, event)
  removeTold(state, event.session)
  return outcome
}
