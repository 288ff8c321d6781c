/**
 * The ends of episodes: for each session that a closing ended and that is an episode, a record on `scores`. Appended like a
 * score: it is needed until it is read back, and whoever is given the partition appends what is missing.
 */
import {
  closings,
  encodeEvent,
  foldEpisodeEnd,
  isMissing,
  isReadable,
  NEWEST,
  taskOf,
  type EpisodeEnded,
  type EpisodeEnds,
  type FoldOutcome,
  type Logged,
  type Queue,
  type SessionState,
  type Table,
  type TurnState,
  type TurnsEvent,
  type TurnsState,
  type Versions,
} from '@instar/events'
import { isJudged } from './need.ts'

export type EndingState = {
  turns: TurnsState
  /** The ends that were read, by policy and session. */
  ends: Table<string, EpisodeEnds>
  /** Sessions whose end is on no record that was read, on any partition. */
  ending: Queue
  /** Those of them that `endEpisodes` is to look at: it has not since something was read of them. */
  endsToLookAt: Set<string>
  /** Records that were appended and not read back, by what they say. */
  endsAppended: Map<string, string>
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
  if (state.ending.has(event.session)) state.endsToLookAt.add(event.session)
  else look(state, session)
}

export const evolveEnd = (state: EndingState, logged: Logged<EpisodeEnded>): FoldOutcome => {
  const { event, id } = logged
  let ends = state.ends.get(event.policy)
  if (!ends) state.ends.set(event.policy, (ends = new Map()))
  const outcome = foldEpisodeEnd(ends, logged)
  if (state.endsAppended.get(nameOf(event)) === id) state.endsAppended.delete(nameOf(event))
  const session = state.ending.has(event.session) ? state.turns.sessions.get(event.session) : undefined
  if (session) look(state, session)
  return outcome
}

const look = (state: EndingState, session: SessionState): void => {
  if (missingOf(state, session).length > 0) {
    state.ending.add(session.session)
    state.endsToLookAt.add(session.session)
  } else {
    state.ending.delete(session.session)
    state.endsToLookAt.delete(session.session)
  }
}

const missingOf = (state: EndingState, session: SessionState): Omit<EpisodeEnded, 'at'>[] =>
  endsOf(session).filter((one) => isMissing(state.ends.get(one.policy), one))

/** All whose end is missing are looked at: also those that others had begun, or a process before this one. */
export const lookAtEnds = (state: EndingState): void => {
  for (const session of state.ending) state.endsToLookAt.add(session)
}

/** Whether `endEpisodes` has something to look at. Nothing is appended before all readers support the record. */
export const hasEnds = ({ endsToLookAt, versions = NEWEST }: EndingState): boolean =>
  endsToLookAt.size > 0 && isReadable(versions, 'EpisodeEnded')

/** Whether nothing that may be written is missing. */
export const isEnded = ({ ending, versions = NEWEST }: EndingState): boolean =>
  ending.size === 0 || !isReadable(versions, 'EpisodeEnded')

/** Where a walk has come to: a new one would pass over the places of all that was removed. */
const walks = new WeakMap<Set<string>, Iterator<string, undefined>>()

/** Removes the first one. */
const nextEnd = (ends: Set<string>): string | undefined => {
  const walk = walks.get(ends) ?? ends.values()
  const { value } = walk.next()
  if (value === undefined) walks.delete(ends)
  else walks.set(ends, walk)
  if (value !== undefined) ends.delete(value)
  return value
}

/**
 * The records of ends in the assigned partitions that are missing and not on their way, `most` and the rest of the last
 * session at most.
 */
export const endEpisodes = (
  state: EndingState,
  now: number,
  assigned: (partition: number) => boolean,
  most = Infinity,
): { do: 'append'; record: string; event: EpisodeEnded }[] => {
  const outputs: { do: 'append'; record: string; event: EpisodeEnded }[] = []
  if (!hasEnds(state)) return outputs
  while (outputs.length < most) {
    const id = nextEnd(state.endsToLookAt)
    if (id === undefined) break
    const session = state.turns.sessions.get(id)
    if (!session || !assigned(session.turns[0]?.partition ?? -1)) continue
    for (const end of missingOf(state, session)) {
      if (state.endsAppended.has(nameOf(end))) continue
      const event: EpisodeEnded = { ...end, at: now }
      const { id: record } = encodeEvent(event, state.versions)
      state.endsAppended.set(nameOf(end), record)
      outputs.push({ do: 'append', record, event })
    }
  }
  return outputs
}

const nameOf = ({ session, policy, closing, part }: Omit<EpisodeEnded, 'at'>): string =>
  [session, policy, closing, part].join(' ')
