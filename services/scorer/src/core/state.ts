/**
 * Everything the scorer knows: the folds of `turns` and `scores`, side by side, and caches of them. `work` is
 * this process's own affair (what it has asked for and not seen come back): `forgetWork` of a snapshot. So is `waiting`.
 */
import {
  foldScores,
  foldTurns,
  foldWeights,
  initialScores,
  initialTurns,
  initialWeights,
  lastShown,
  openTurns,
  isEpisodeRecord,
  unshownBeside,
  type EpisodeBegins,
  type EpisodeEnds,
  type EpisodeRecord,
  type Event,
  type Logged,
  type MemoryScores,
  type MemoryTurns,
  type MemoryWeights,
  type FoldOutcome,
  type Queue,
  type ScoresEvent,
  type TurnsEvent,
  type Versions,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'
import { endPending, foldAsked, type AskedState } from './asked-alone.ts'
import { foldClaim, type ClaimTable } from './claims.ts'
import { countPending, foldSeen, type PendingSeen, type SeenTable } from './duplicates.ts'
import {
  abortTold,
  areRecorded,
  evolveEpisode,
  forgetEpisodes,
  lookAtEpisodes,
  noteEpisode,
  type EpisodeState,
} from './episode-records.ts'
import { missingRecords } from './missing-records.ts'
import { needOf, type ScoredTurns } from './need.ts'
import { foldRecord, type RecordTable } from './own-record.ts'
import { WaitingTurns } from './waiting.ts'
import { initialIdle, rebuild, unwatch, watch, watchAgain, type Idle } from './idle.ts'

type PendingStep =
  /** Judges were asked about `cause`; an answer with another `ask` is too late. */
  | { step: 'judging'; ask: number; cause: string }
  /** The record with this id was appended and has not been read back. `seen`: what it adds to `pendingSeen`. */
  | { step: 'appended'; record: string; seen?: string }

export type ScorerState = ScoredTurns &
  AskedState &
  EpisodeState & {
    /** How far a turn's version is from the head: what will be stale is not for a slow judge. */
    weights: WeightsState
    /** Values that people said are right. */
    claims: ClaimTable
    /** How often the same request, answer and reaction were scored. */
    seen: SeenTable
    /** What each person said of which kind of answer. */
    records: RecordTable
    /** Turns that need a score, by the records read so far, on any partition. */
    needed: Queue
    /** Those of them of which something was read since `decide` looked at them, MOST_TOUCHED at most. */
    touched: Set<string>
    /** `decide` is to walk over all that are needed: the share has changed, or more was touched than `touched` holds. */
    sweep: boolean
    /** Sessions that are to be closed when they go quiet. */
    idle: Idle
    work: Map<string, PendingStep>
    /** Scored turns that wait for a batch. */
    waiting: WaitingTurns
    pendingSeen: PendingSeen
    /** Session → record id of the SessionClosed that has not been read back. */
    closing: Map<string, string>
    asked: number
    /** What readers of the log have, and so what is written and what a record's id is of; default: this build's newest. */
    versions?: Versions
  }

type MemoryScorer = Omit<ScorerState, 'turns' | 'scores' | 'weights' | 'begins' | 'ends'> & {
  turns: MemoryTurns
  scores: Map<string, MemoryScores>
  weights: MemoryWeights
  begins: Map<string, EpisodeBegins>
  ends: Map<string, EpisodeEnds>
}

/** What is touched beyond is found by walking over what is needed. */
export const MOST_TOUCHED = 4096

export const initialState = (): MemoryScorer => ({
  turns: initialTurns(),
  scores: new Map(),
  weights: initialWeights(),
  claims: new Map(),
  seen: new Map(),
  records: new Map(),
  questions: new Map(),
  askers: new Map(),
  begins: new Map(),
  beginning: missingRecords(),
  ends: new Map(),
  ending: missingRecords(),
  needed: new Set(),
  touched: new Set(),
  sweep: false,
  idle: initialIdle(),
  work: new Map(),
  waiting: new WaitingTurns(),
  pendingSeen: new Map(),
  pendingAsked: new Map(),
  closing: new Map(),
  asked: 0,
})

/**
 * Call before the first `decide` and after a restart from a snapshot: answers requested by the previous process will
 * not arrive.
 */
export const forgetWork = (state: ScorerState): void => {
  state.touched.clear()
  state.sweep = true
  state.work.clear()
  state.pendingSeen.clear()
  state.pendingAsked.clear()
  state.closing.clear()
  forgetEpisodes(state)
  lookAtEpisodes(state)
  rebuild(state.idle)
}

/** Whether no turn needs a score but `held` that are held, and no record of an episode that may be written is missing. */
export const isDone = (state: ScorerState, held = 0): boolean => state.needed.size <= held && areRecorded(state)

/** Null for a topic that the scorer does not follow. */
export const evolve = (state: ScorerState, logged: Logged<Event>): FoldOutcome | null => {
  switch (logged.topic) {
    case 'turns':
      return evolveTurns(state, logged as Logged<TurnsEvent>)
    case 'scores':
      return isEpisodeRecord(logged.event)
        ? evolveEpisode(state, logged as Logged<EpisodeRecord>)
        : evolveScores(state, logged as Logged<ScoresEvent>)
    case 'weights':
      return foldWeights(state.weights, logged as Logged<WeightsEvent>)
    case 'updates': {
      // A batch that lost a race is read, too: its turns count as taken, so that more are judged.
      const { event } = logged
      if (event.type === 'BatchSealed') state.waiting.foldBatch(event)
      return null
    }
    case 'blobs':
    case 'upgrades':
      return null
  }
}

const evolveTurns = (state: ScorerState, logged: Logged<TurnsEvent>): FoldOutcome => {
  const { event } = logged
  const outcome = foldTurns(state.turns, logged)
  if (event.type === 'SessionClosed') readClosing(state, event.session, logged.id)
  if (!outcome.counted) return outcome
  noteEpisode(state, event)
  switch (event.type) {
    case 'TurnCaptured':
    case 'TurnAborted': {
      const follows = state.turns.turns.get(event.turn)?.follows
      if (follows) touch(state, follows)
      watch(state.idle, event.session, state.turns.sessions.get(event.session)?.lastAt ?? 0)
      break
    }
    case 'TurnSampled':
      touch(state, event.turn)
      break
    case 'FeedbackGiven': {
      const turn = event.turn ?? lastShown(state.turns.sessions.get(event.session))?.turn
      if (turn) touch(state, turn)
      break
    }
    case 'SessionLinked':
    case 'ResponseDeleted':
      break
    case 'SessionClosed': {
      const session = state.turns.sessions.get(event.session)
      const ends = session?.outcome?.record === logged.id
      if (ends) state.waiting.foldOutcome(session.turns)
      for (const turn of event.open) touch(state, turn)
      for (const { turn, discardedBy } of session?.turns ?? [])
        if (event.discarded === true || (ends && discardedBy !== null)) touch(state, turn)
      break
    }
  }
  return outcome
}

/** Marks a turn, and the candidates beside it that were not shown, as changed. */
const touch = (state: ScorerState, id: string): void => {
  const turn = state.turns.turns.get(id)
  if (!turn) return drop(state, id)
  for (const one of [turn, ...unshownBeside(state.turns.sessions.get(turn.session), turn)]) {
    if (!needOf(state, one)) drop(state, one.turn)
    else {
      state.needed.add(one.turn)
      lookAt(state, one.turn)
    }
  }
}

/** The next `decide` looks at it. */
export const lookAt = (state: ScorerState, turn: string): void => {
  if (state.touched.size < MOST_TOUCHED) state.touched.add(turn)
  else state.sweep = true
}

const drop = (state: ScorerState, turn: string): void => {
  state.needed.delete(turn)
  state.touched.delete(turn)
}

/** A closing was read, counted or not: ours is no longer on its way, and what is still open has to go quiet again. */
const readClosing = (state: ScorerState, session: string, record: string): void => {
  const ours = state.closing.get(session) === record
  if (ours) state.closing.delete(session)
  const held = state.turns.sessions.get(session)
  if (openTurns(held).length === 0) unwatch(state.idle, session)
  else if (ours) watchAgain(state.idle, session, held?.lastAt ?? 0)
}

const evolveScores = (state: ScorerState, logged: Logged<ScoresEvent>): FoldOutcome => {
  const { event } = logged
  let scores = state.scores.get(event.policy)
  if (!scores) state.scores.set(event.policy, (scores = initialScores()))
  const outcome = foldScores(scores, logged)
  if (outcome.counted) {
    foldClaim(state.claims, event, logged.offset)
    foldSeen(state.seen, event, logged.offset)
    foldAsked(state, event, logged.offset)
    foldRecord(state.records, event, logged.offset)
    if ((state.turns.turns.get(event.turn)?.outcomeBy ?? null) === null) state.waiting.foldScore(event)
  }
  const work = state.work.get(event.turn)
  if (work?.step === 'appended' && work.record === logged.id) {
    state.work.delete(event.turn)
    endPending(state.pendingAsked, event)
    if (work.seen !== undefined) countPending(state.pendingSeen, work.seen, -1)
  }
  if (event.type === 'TurnSkipped' && event.reason === 'discarded') abortTold(state, event.session)
  // Looks again after another record won: feedback may still outrank it.
  touch(state, event.turn)
  return outcome
}
