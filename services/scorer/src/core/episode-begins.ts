/** The beginnings of episodes: for each session that is one and is not closed, a record on `scores`. */
import {
  foldEpisodeBegun,
  isBeginMissing,
  taskOf,
  whyUnusable,
  type EpisodeBegins,
  type EpisodeBegun,
  type EpisodeEnds,
  type FoldOutcome,
  type Logged,
  type SessionState,
  type Table,
  type TurnState,
  type TurnsEvent,
  type TurnsState,
  type Versions,
} from '@instar/events'
import { appendMissing, readBack, setMissing, type MissingRecords, type RecordKind } from './missing-records.ts'

export type BeginningState = {
  turns: TurnsState
  /** The beginnings of episodes without an end, and the ends, that were read, by policy and session. */
  begins: Table<string, EpisodeBegins>
  ends: Table<string, EpisodeEnds>
  /** Sessions without a record of their beginning. */
  beginning: MissingRecords
  versions?: Versions
}

/** What the records of the session's beginning say, without their time; none once it is closed, or if it is no episode. */
export const beginsOf = ({ closed, outcome, turns, session }: SessionState): Omit<EpisodeBegun, 'at'>[] => {
  const [first] = turns
  if (closed || !first) return []
  const of = { task: taskOf({ outcome, turns }), key: first.key, begunAt: first.at }
  const policies = new Set(turns.filter(isWaiting).map(({ policy }) => policy))
  return [...policies].map((policy) => ({ type: 'EpisodeBegun', session, policy, ...of }))
}

/** Whether the turn waits for the outcome of its session while that is not closed: a batch of its policy may use it. */
const isWaiting = (turn: TurnState): boolean => turn.shown && turn.task !== null && whyUnusable(turn) === null

/** After a record of `turns` that counted. */
export const noteBegin = (state: BeginningState, event: TurnsEvent): void => {
  const isTurn = 'answer' in event
  if (isTurn ? (event.task ?? null) === null : event.type !== 'SessionClosed') return
  const session = state.turns.sessions.get(event.session)
  if (!session) return
  if (!isTurn) {
    if (session.turns.some(({ task }) => task !== null)) setMissing(state.beginning, event.session, false)
    return
  }
  const turn = session.byId.get(event.turn)
  if (!turn || session.closed) return
  const isNew = isWaiting(turn) && !isKnown(state, turn)
  // Without a walk over the turns of the session for each.
  if (isNew && state.beginning.sessions.has(event.session)) state.beginning.toLookAt.add(event.session)
  else if (isNew || isFirstNamed(session, turn)) look(state, session)
}

const isKnown = ({ begins, ends }: BeginningState, { policy, session }: TurnState): boolean =>
  begins.get(policy)?.has(session) === true || ends.get(policy)?.has(session) === true

/** Whether the turn is the first of its session that names the task. */
const isFirstNamed = ({ turns }: SessionState, turn: TurnState): boolean =>
  turn.task !== null && turn.task !== '' && turns.find(({ task }) => task !== null && task !== '') === turn

export const evolveBegin = (state: BeginningState, logged: Logged<EpisodeBegun>): FoldOutcome => {
  const { event, id } = logged
  let begins = state.begins.get(event.policy)
  if (!begins) state.begins.set(event.policy, (begins = new Map()))
  const outcome = foldEpisodeBegun(begins, state.ends.get(event.policy), logged)
  readBack(state.beginning, nameOf(event), id)
  lookAgain(state, event.session)
  return outcome
}

/** The end of the session was read. */
export const endBegun = (
  state: BeginningState,
  { policy, session }: Pick<EpisodeBegun, 'policy' | 'session'>,
): void => {
  if (state.begins.get(policy)?.has(session)) state.begins.get(policy)?.delete(session)
  lookAgain(state, session)
}

const lookAgain = (state: BeginningState, id: string): void => {
  const session = state.beginning.sessions.has(id) ? state.turns.sessions.get(id) : undefined
  if (session) look(state, session)
}

const look = (state: BeginningState, session: SessionState): void =>
  setMissing(state.beginning, session.session, missingOf(state, session).length > 0)

const missingOf = ({ begins, ends }: BeginningState, session: SessionState): Omit<EpisodeBegun, 'at'>[] =>
  beginsOf(session).filter((one) => isBeginMissing(begins.get(one.policy), ends.get(one.policy), one))

const nameOf = ({ session, policy, task }: Omit<EpisodeBegun, 'at'>): string => JSON.stringify([session, policy, task])

export const beginEpisodes = (
  state: BeginningState,
  now: number,
  assigned: (partition: number) => boolean,
  most?: number,
): { do: 'append'; record: string; event: EpisodeBegun }[] => {
  const kind: RecordKind<EpisodeBegun> = { type: 'EpisodeBegun', nameOf, of: (session) => missingOf(state, session) }
  return appendMissing(state, state.beginning, kind, now, assigned, most)
}
