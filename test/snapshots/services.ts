/** The states of the services in memory and in a snapshot, and all queries of either. */
import type { Event, Logged, Queue, TurnsState, UpdatesState, WeightsState } from '@instar/events'
import { updateLine, weightLine } from '@instar/events'
import type { Snapshot } from '@instar/log'
import { initialProjection, project, type Projection } from '../../packages/projections/src/project.ts'
import { noRows } from '../../packages/projections/src/rows.ts'
import { storedProjection } from '../../packages/projections/src/stored.ts'
import {
  evolve as publisherEvolve,
  initialState as publisherState,
  type PublisherState,
} from '../../services/publisher/src/core/state.ts'
import { stateOfSnapshot as storedPublisher } from '../../services/publisher/src/shell/snapshot.ts'
import {
  evolve as scorerEvolve,
  initialState as scorerState,
  type ScorerState,
} from '../../services/scorer/src/core/state.ts'
import { stateOfSnapshot as storedScorer } from '../../services/scorer/src/shell/snapshot.ts'
import {
  evolve as trainerEvolve,
  initialState as trainerState,
  type TrainerState,
} from '../../services/trainer/src/core/state.ts'
import { stateOfSnapshot as storedTrainer } from '../../services/trainer/src/shell/snapshot.ts'
import { POLICIES, POLICY, SUBJECTS, type History } from '../kit/histories.ts'

/** A fold in progress. */
export type Fold = {
  evolve(logged: Logged<Event>): void
  /** The results of all queries of a history. */ view(history: History): unknown
}
export type Service = {
  name: string
  topics: readonly ('turns' | 'scores' | 'updates' | 'weights')[]
  inMemory(): Fold
  stored(snapshot: Snapshot): Fold
}

const turnsOf = ({ turns, sessions }: TurnsState, history: History) => ({
  turns: history.turns.map((id) => turns.get(id) ?? id),
  known: history.turns.filter((id) => turns.has(id)),
  sessions: history.sessions.map((id) => {
    const session = sessions.get(id)
    return session ? { ...session, turns: session.turns.map(({ turn }) => turn) } : id
  }),
})

const updatesOf = (state: UpdatesState, history: History, policies: readonly string[]) =>
  policies.map((policy) => {
    const { chain, count, failed, last, byId, byUpdate, spent, baselines } = updateLine(state, policy)
    return {
      tip: chain.tip,
      read: history.batches.filter((id) => chain.read.has(id)),
      count,
      failed,
      last,
      batches: history.batches.map((id) => byId.get(id)),
      byUpdate: history.updates.map((id) => byUpdate.get(id)),
      spent: history.turns.filter((id) => spent.has(id)),
      baselines: SUBJECTS.map((subject) => baselines.get(subject)),
    }
  })

const weightsOf = (state: WeightsState, history: History, policies: readonly string[]) =>
  policies.map((policy) => {
    const {
      chain,
      versions,
      verdicts,
      requests,
      started,
      last,
      head,
      frozen,
      verdictCount,
      bestContent,
      rejectionsInARow,
      moveCount,
    } = weightLine(state, policy)
    return {
      tip: chain.tip,
      started,
      last,
      head,
      frozen,
      verdictCount,
      bestContent,
      rejectionsInARow,
      moveCount,
      versions: history.versions.map((version) => versions.get(version)),
      verdicts: history.updates.map((id) => verdicts.get(id)),
      requests: history.requests.filter((id) => requests.has(id)),
    }
  })

const queued = (queue: Queue) => ({
  size: queue.size,
  keys: [...queue],
  has: [...queue].filter((key) => queue.has(key)).length,
})

const scorer = (state: ScorerState): Fold => ({
  evolve: (logged) => void scorerEvolve(state, logged),
  view: (history) => ({
    ...turnsOf(state.turns, history),
    scores: POLICIES.map((policy) => history.turns.map((id) => state.scores.get(policy)?.turns.get(id))),
    // The set does not depend on how topics interleave; its order does.
    needed: [...state.needed].sort(),
    beginning: [...state.beginning.sessions].sort(),
    begins: POLICIES.map((policy) => history.sessions.map((id) => state.begins.get(policy)?.get(id))),
    ending: [...state.ending.sessions].sort(),
    ends: POLICIES.map((policy) => history.sessions.map((id) => state.ends.get(policy)?.get(id))),
    watched: new Map(state.idle.watched),
    weights: weightsOf(state.weights, history, POLICIES),
  }),
})

const trainer = (state: TrainerState): Fold => ({
  evolve: (logged) => void trainerEvolve(state, logged),
  view: (history) => ({
    told: history.sessions.map((id) => state.told.get(id)),
    ...turnsOf(state.turns, history),
    scores: history.turns.map((id) => state.scores.turns.get(id)),
    updates: updatesOf(state.updates, history, [POLICY]),
    weights: weightsOf(state.weights, history, [POLICY]),
    // The waiting turns and their places do not depend on how topics interleave; their order does.
    pending: [state.pending, state.episodes].map((queues) =>
      [...queues.keys()].sort().map((place) => [place, queues.get(place)!.size, [...queues.get(place)!].sort()]),
    ),
  }),
})

const publisher = (state: PublisherState): Fold => ({
  evolve: (logged) => void publisherEvolve(state, logged),
  view: (history) => ({
    scores: history.turns.map((id) => state.scores.turns.get(id)),
    places: history.turns.map((id) => state.places.get(id)),
    updates: updatesOf(state.updates, history, POLICIES).map(({ spent: _, baselines: __, ...rest }) => rest),
    weights: weightsOf(state.weights, history, POLICIES),
    // As above: a batch that was computed twice may be at another place.
    unsettled: { size: state.unsettled.size, keys: [...state.unsettled].sort() },
    positive: queued(state.positive),
  }),
})

const projections = (state: Projection): Fold => ({
  evolve: (logged) => project(state, logged, noRows()),
  view: (history) => ({
    ...turnsOf(state.turns, history),
    scores: POLICIES.map((policy) => history.turns.map((id) => state.scores.get(policy)?.turns.get(id))),
    updates: updatesOf(state.updates, history, POLICIES).map(({ spent: _, baselines: __, ...rest }) => rest),
    weights: weightsOf(state.weights, history, POLICIES),
  }),
})

const ALL = ['turns', 'scores', 'updates', 'weights'] as const

export const SERVICES: readonly Service[] = [
  {
    name: 'scorer',
    topics: ALL,
    inMemory: () => scorer(scorerState()),
    stored: (snapshot) => scorer(storedScorer(snapshot)),
  },
  {
    name: 'trainer',
    topics: ALL,
    inMemory: () => trainer(trainerState(POLICY)),
    stored: (snapshot) => trainer(storedTrainer(snapshot, POLICY)),
  },
  {
    name: 'trainer-of-scores',
    topics: ['scores', 'updates', 'weights'],
    inMemory: () => trainer({ ...trainerState(POLICY), reads: 'scores' }),
    stored: (snapshot) => trainer({ ...storedTrainer(snapshot, POLICY), reads: 'scores' }),
  },
  {
    name: 'publisher',
    topics: ['scores', 'updates', 'weights'],
    inMemory: () => publisher(publisherState(POLICY)),
    stored: (snapshot) => publisher(storedPublisher(snapshot, POLICY)),
  },
  {
    name: 'projections',
    topics: ALL,
    inMemory: () => projections(initialProjection()),
    stored: (snapshot) => projections(storedProjection(snapshot)),
  },
]
