/**
 * The fold of `turns`, per session: the turns, the next state of each, and which turns are closed. The next state of a
 * turn T is the first main turn whose request contains T's answer as its last assistant answer (compared by answer
 * key); it does not change later. A retry of the request that T answered is not a next state, even if T's answer equals
 * the previous answer. A candidate that was not shown neither has a next state nor is one.
 *
 * The fold owns the states and changes them in place. The id of a turn contains the id of its session.
 */
import { sessionOfTurn } from '../ids.ts'
import type {
  FeedbackGiven,
  Logged,
  ResponseDeleted,
  SessionClosed,
  SessionLinked,
  TurnAborted,
  TurnCaptured,
  TurnSampled,
  TurnsEvent,
} from '../records.ts'
import { addAnswer, findAnswer } from './answers.ts'
import { COUNTED, ignored, type FoldOutcome } from './outcome.ts'
import type { MemoryTurns, SessionState, TurnsState, TurnState } from './turn-states.ts'

export { findAnswer } from './answers.ts'
export type { EpisodeOutcome, MemoryTurns, SessionState, TurnsState, TurnState } from './turn-states.ts'

export const initialTurns = (): MemoryTurns => ({ sessions: new Map(), turns: new Map() })

export const foldTurns = (state: TurnsState, logged: Logged<TurnsEvent>): FoldOutcome => {
  const { event } = logged
  switch (event.type) {
    case 'TurnCaptured':
    case 'TurnAborted':
    case 'TurnSampled':
      return foldTurn(state, logged as Logged<TurnCaptured | TurnAborted | TurnSampled>)
    case 'FeedbackGiven':
      return foldFeedback(state, logged.id, event)
    case 'SessionClosed':
      return foldClosed(state, logged.id, event)
    case 'SessionLinked':
      return foldLinked(state, event)
    case 'ResponseDeleted':
      return foldDeleted(state, event)
  }
}

/** The ids of the open turns, which a SessionClosed lists: shown, without a next state, not closed. */
export const openTurns = (session: SessionState | undefined): string[] =>
  (session?.turns ?? []).flatMap(({ turn, shown, next, closed }) => (shown && next === null && !closed ? [turn] : []))

/** Most turns in one SessionClosed: some 200 KiB with generated ids. */
export const MOST_CLOSED = 2000
const MOST_CLOSED_BYTES = 1 << 20

/** Splits the open turns of a session into parts, one per SessionClosed, so that the size of a record is limited. */
export const closings = (open: readonly string[]): string[][] => {
  const longest = open.reduce((most, { length }) => Math.max(most, length), 1)
  const size = Math.max(1, Math.min(MOST_CLOSED, Math.floor(MOST_CLOSED_BYTES / (3 * longest))))
  return Array.from({ length: Math.ceil(open.length / size) }, (_, i) => open.slice(i * size, (i + 1) * size))
}

/** The last turn that was shown, to which feedback without a turn id refers. */
export const lastShown = (session: SessionState | undefined): TurnState | undefined =>
  session?.turns.findLast(({ shown }) => shown)

/** The name of the task of an episode: that of its end, or else of its turns; '' if it has none. */
export const taskOf = ({ outcome, turns }: Pick<SessionState, 'outcome' | 'turns'>): string =>
  outcome?.task ?? turns.find(({ task }) => task !== null && task !== '')?.task ?? ''

/** The turn of the same request that was shown: `turn` itself, or another candidate of its group. */
export const shownOf = (session: SessionState | undefined, turn: TurnState): TurnState | undefined =>
  turn.shown ? turn : session?.byGroup.get(turn.group)?.find(({ shown }) => shown)

/** The candidates of the same request that were not shown. */
export const unshownBeside = (
  session: SessionState | undefined,
  { shown, group, candidates }: TurnState,
): TurnState[] => (shown && candidates > 1 ? (session?.byGroup.get(group) ?? []).filter((turn) => !turn.shown) : [])

const foldClosed = (state: TurnsState, record: string, event: SessionClosed): FoldOutcome => {
  const session = state.sessions.get(event.session)
  let closed = 0
  for (const id of event.open) {
    const turn = sessionOfTurn(id) === event.session ? state.turns.get(id) : undefined
    if (!turn || turn.next !== null || turn.closed) continue
    turn.closed = true
    turn.closedBy = record
    state.turns.set(id, turn)
    closed += 1
  }
  const discarded =
    event.discarded === true ? (session?.turns ?? []).filter(({ discardedBy }) => discardedBy === null) : []
  for (const turn of discarded) {
    turn.discardedBy = record
    state.turns.set(turn.turn, turn)
  }
  const { outcome = null, task = null } = event
  const ends = outcome !== null && session?.outcome === null
  if (!session || (closed + discarded.length === 0 && !ends)) return ignored('not_open')
  session.closed = true
  if (ends) {
    session.outcome = { value: outcome, record, task, at: event.at }
    for (const turn of session.turns) {
      if (!turn.shown) continue
      turn.outcomeBy = record
      state.turns.set(turn.turn, turn)
    }
  }
  state.sessions.set(session.session, session)
  return COUNTED
}

const foldLinked = (state: TurnsState, { session: id, parent }: SessionLinked): FoldOutcome => {
  const session = state.sessions.get(id)
  if (!session) return ignored('unknown_session')
  if (session.parent !== null) return ignored('repeat')
  session.parent = parent
  state.sessions.set(id, session)
  return COUNTED
}

const foldDeleted = (state: TurnsState, event: ResponseDeleted): FoldOutcome => {
  const session = state.sessions.get(event.session)
  const turn = session?.byId.get(event.turn)
  if (!session || !turn) return ignored('unknown_turn')
  if (turn.deleted) return ignored('repeat')
  turn.deleted = true
  state.turns.set(turn.turn, turn)
  state.sessions.set(event.session, session)
  return COUNTED
}

const foldTurn = (state: TurnsState, logged: Logged<TurnCaptured | TurnAborted | TurnSampled>): FoldOutcome => {
  const { event } = logged
  // Whether the record counts must not depend on records of another key, that is, of another session.
  if (sessionOfTurn(event.turn) !== event.session) return ignored('unknown_turn')
  if (state.turns.has(event.turn)) return ignored('repeat')
  const session = sessionOf(state, event.session)
  const turn: TurnState = {
    turn: event.turn,
    place: session.turns.length,
    record: logged.id,
    session: event.session,
    policy: event.policy,
    version: event.version,
    status: event.type === 'TurnAborted' ? 'aborted' : 'complete',
    kind: event.kind,
    group: event.group,
    candidate: event.candidate,
    candidates: event.candidates,
    shown: event.type !== 'TurnSampled',
    subject: event.subject,
    key: event.key,
    trainable: event.trainable,
    reason: event.reason,
    attempt: attemptOf(session, event.digest, event.group),
    digest: event.digest,
    answer: event.answer,
    follows: null,
    next: null,
    closed: false,
    closedBy: null,
    discardedBy: null,
    task: event.task ?? null,
    outcomeBy: null,
    deleted: false,
    feedback: [],
    at: event.at,
    finishedAt: event.finishedAt,
    partition: logged.partition,
    offset: logged.offset,
  }
  if (turn.shown && event.kind === 'main' && event.after) {
    const followed = findAnswer(session, event.after, event.digest)
    if (followed) {
      turn.follows = followed.turn
      if (followed.next === null && !followed.closed) {
        followed.next = turn.turn
        state.turns.set(followed.turn, followed)
      }
    }
  }
  addTurn(session, turn)
  state.sessions.set(session.session, session)
  state.turns.set(turn.turn, turn)
  return COUNTED
}

const foldFeedback = (state: TurnsState, record: string, event: FeedbackGiven): FoldOutcome => {
  const session = state.sessions.get(event.session)
  if (session?.feedback.has(event.id)) return ignored('repeat')
  const turn =
    event.turn === null
      ? lastShown(session)
      : sessionOfTurn(event.turn) === event.session
        ? state.turns.get(event.turn)
        : undefined
  if (!session || !turn) return ignored('unknown_turn')
  addFeedback(session, event.id)
  turn.feedback.push({ id: event.id, record, value: event.value, at: event.at, comment: event.comment })
  state.turns.set(turn.turn, turn)
  state.sessions.set(session.session, session)
  return COUNTED
}

/** Of sessions without: most have no candidates and no feedback, and an empty map takes as much memory as a short one. */
const NONE: ReadonlyMap<string, TurnState[]> = new Map()
const NO_IDS: ReadonlySet<string> = new Set()

const addFeedback = (session: SessionState, id: string): void => {
  if (session.feedback === NO_IDS) session.feedback = new Set()
  ;(session.feedback as Set<string>).add(id)
}

const addCandidate = (session: SessionState, turn: TurnState): void => {
  if (session.byGroup === NONE) session.byGroup = new Map()
  const group = session.byGroup.get(turn.group)
  if (group) group.push(turn)
  else (session.byGroup as Map<string, TurnState[]>).set(turn.group, [turn])
}

export const emptySession = (id: string): SessionState => ({
  session: id,
  parent: null,
  turns: [],
  byId: new Map(),
  byStrict: new Map(),
  byLoose: new Map(),
  byGroup: NONE,
  digests: new Map(),
  feedback: NO_IDS,
  closed: false,
  outcome: null,
  lastAt: 0,
})

const sessionOf = (state: TurnsState, id: string): SessionState => {
  let session = state.sessions.get(id)
  if (!session) {
    session = emptySession(id)
    state.sessions.set(id, session)
  }
  return session
}

/** Adds a turn to the indexes of its session. */
export const addTurn = (session: SessionState, turn: TurnState): void => {
  session.turns.push(turn)
  session.byId.set(turn.turn, turn)
  for (const { id } of turn.feedback) addFeedback(session, id)
  attemptOf(session, turn.digest, turn.group)
  if (turn.candidates > 1) addCandidate(session, turn)
  if (!turn.shown) return
  addAnswer(session.byStrict, turn.answer.strict, turn)
  addAnswer(session.byLoose, turn.answer.loose, turn)
  session.lastAt = Math.max(session.lastAt, turn.finishedAt)
}

/** The number of requests with this digest so far. Candidates of one group belong to one request. */
const attemptOf = ({ digests }: SessionState, digest: string, group: string): number => {
  const groups = digests.get(digest) ?? group
  if (typeof groups !== 'string') return groups.add(group).size
  digests.set(digest, groups === group ? group : new Set([groups, group]))
  return groups === group ? 1 : 2
}

/** Requests of the session with this digest. */
export const attemptsAt = (session: SessionState | undefined, digest: string): number => {
  const groups = session?.digests.get(digest)
  return typeof groups === 'string' ? 1 : (groups?.size ?? 0)
}

/** Whether a request of this group, of the session, had the digest. */
export const hasDigest = ({ digests }: SessionState, digest: string, group: string): boolean => {
  const groups = digests.get(digest)
  return groups !== undefined && (typeof groups === 'string' ? groups === group : groups.has(group))
}
