/** The ends of episodes: for each session that a closing ended and that is an episode, a record on `scores`. */
import {
  closings,
  foldEpisodeEnd,
  isMissing,
  taskOf,
  type EpisodeEnded,
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
import {
  appendMissing,
  lookAtOne,
  readBack,
  setMissing,
  type MissingRecords,
  type RecordKind,
} from './missing-records.ts'
import { isJudged, needOf, type ScoredTurns } from './need.ts'

export type EndingState = {
  turns: TurnsState
  /** The ends that were read, by policy and session. */
  ends: Table<string, EpisodeEnds>
  /** Sessions without a record of their end. */
  ending: MissingRecords
  versions?: Versions
}

/** What the records of the session's end say, without their time; none while it runs, or is no episode. */
export const endsOf = ({ closed, outcome, turns, session }: SessionState): Omit<EpisodeEnded, 'at'>[] => {
  const ended = turns.filter(({ shown, task, outcomeBy }) => shown && (task !== null || outcomeBy !== null))
  const closing = outcome?.record ?? closingOf(turns)
  const [first] = turns
  if (!closed || !first || closing === null) return []
  return [...new Set(ended.map(({ policy }) => policy))].flatMap((policy) => {
    const covered = ended.filter((turn) => outcome && turn.policy === policy && isCovered(turn, outcome.record))
    const parts = covered.length === 0 ? [[]] : closings(covered.map(({ turn }) => turn))
    return parts.map((part, i) => ({
      type: 'EpisodeEnded' as const,
      session,
      policy,
      closing,
      outcome: outcome?.value ?? null,
      endedAt: outcome?.at ?? null,
      task: taskOf({ outcome, turns }),
      key: first.key,
      begunAt: first.at,
      turns: part,
      part: i,
      parts: parts.length,
    }))
  })
}

const isCovered = (turn: TurnState, closing: string): boolean => turn.outcomeBy === closing && isJudged(turn)

/** Of a session without an outcome: a closing of it that counted. */
const closingOf = (turns: readonly TurnState[]): string | null =>
  turns.find(({ closedBy }) => closedBy !== null)?.closedBy ??
  turns.find(({ discardedBy }) => discardedBy !== null)?.discardedBy ??
  null

/** After a record of `turns` that counted. A turn with a task may follow the end of its session. */
export const noteEnd = (state: EndingState, event: TurnsEvent): void => {
  const isTurn = 'answer' in event
  if (isTurn ? (event.task ?? null) === null : event.type !== 'SessionClosed') return
  const session = state.turns.sessions.get(event.session)
  if (!session?.closed) return
  if (!isTurn) return look(state, session)
  const known = state.ends.get(event.policy)?.get(event.session)
  if (known && (session.outcome === null || known.outcome !== null)) return
  // Without a walk over the turns of the session for each.
  if (state.ending.sessions.has(event.session)) state.ending.toLookAt.add(event.session)
  else look(state, session)
}

export const evolveEnd = (state: EndingState, logged: Logged<EpisodeEnded>): FoldOutcome => {
  const { event, id } = logged
  let ends = state.ends.get(event.policy)
  if (!ends) state.ends.set(event.policy, (ends = new Map()))
  const outcome = foldEpisodeEnd(ends, logged)
  readBack(state.ending, nameOf(event), id)
  const session = state.ending.sessions.has(event.session) ? state.turns.sessions.get(event.session) : undefined
  if (session) look(state, session)
  return outcome
}

/** After a skip of a turn of an aborted session. */
export const abortTold = ({ ending }: Pick<EndingState, 'ending'>, session: string): void => lookAtOne(ending, session)

const look = (state: EndingState, session: SessionState): void =>
  setMissing(state.ending, session.session, missingOf(state, session).length > 0)

const missingOf = (state: EndingState, session: SessionState): Omit<EpisodeEnded, 'at'>[] =>
  endsOf(session).filter((one) => isMissing(state.ends.get(one.policy), one))

/** How many first turns of a session were discarded and have a score that says so: they need no further look. */
const told = new WeakMap<SessionState, number>()

/** Whether a turn of an aborted session has no score yet that says so: behind the session's end its reward would be that of a single turn. */
const isAbortUntold = (state: ScoredTurns, session: SessionState): boolean => {
  const { turns } = session
  const isUntold = (turn: TurnState): boolean => turn.discardedBy !== null && needOf(state, turn) !== null
  let first = told.get(session) ?? 0
  for (let turn = turns[first]; turn && turn.discardedBy !== null && !isUntold(turn); turn = turns[first]) first += 1
  told.set(session, first)
  return turns.slice(first).some(isUntold)
}

export const endEpisodes = (
  state: EndingState & ScoredTurns,
  now: number,
  assigned: (partition: number) => boolean,
  most?: number,
): { do: 'append'; record: string; event: EpisodeEnded }[] => {
  const kind: RecordKind<EpisodeEnded> = {
    type: 'EpisodeEnded',
    nameOf,
    of: (session) => (isAbortUntold(state, session) ? [] : missingOf(state, session)),
  }
  return appendMissing(state, state.ending, kind, now, assigned, most)
}

const nameOf = ({ session, policy, closing, part }: Omit<EpisodeEnded, 'at'>): string =>
  [session, policy, closing, part].join(' ')
