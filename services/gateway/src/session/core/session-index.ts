/**
 * A gateway's state of `turns`: the shared fold, and an index of answers across sessions. Bounded: the sessions touched
 * longest ago are evicted. In memory, only the first position of an evicted session remains, so that it can be read
 * from the log again. With a store, the session remains and only its index entries are removed.
 */
import {
  COUNTED,
  initialTurns,
  LruMap,
  type AnswerKey,
  type Logged,
  type MemoryTurns,
  type FoldOutcome,
  type SessionState,
  type TurnsEvent,
  type TurnState,
} from '@instar/events'
import { sessionIdPart } from '@instar/dialects'
import { answerName, promptName, type NameHolder } from './held-names.ts'
import {
  addLastName,
  forgetNames,
  MOST_NAMED,
  nameFor,
  turnsNamed,
  type NameIndex,
  type Names,
  type RecentSession,
  type RecordPosition,
} from './names.ts'
import { extraOf, foldTurn, isAgain, turnOf, type StoredTurns } from './stored-turns.ts'

export type Limits = { sessions: number; turns: number }
export type SessionIndex = NameIndex &
  StoredTurns & {
    limits: Limits
    /** Sessions in the order in which they were touched, with the number of turns they hold. */
    recent: LruMap<string, RecentSession>
    turns: number
    forgotten: LruMap<string, RecordPosition>
    /** Records that did not count, by reason. */
    ignored: Map<string, number>
    /** The state from which sessions are evicted; null where the fold is in a store. */
    memory: MemoryTurns | null
    /** Holds the names of turns longer than `recent`; null: nothing does. */
    held: NameHolder | null
  }

const FORGOTTEN_PER_SESSION = 20

export const initialIndex = (limits: Limits): SessionIndex => {
  const memory = initialTurns()
  return {
    limits,
    fold: memory,
    listing: null,
    seq: 0,
    byLoose: new Map(),
    byAsked: new Map(),
    byMintedId: new Map(),
    recent: new LruMap(),
    turns: 0,
    forgotten: new LruMap(),
    ignored: new Map(),
    memory,
    held: null,
  }
}

/** Folds a record of `turns` in log order. A record of an evicted session waits for `restore`. */
export const evolveIndex = (index: SessionIndex, logged: Logged<TurnsEvent>): FoldOutcome => {
  if (index.forgotten.has(logged.key)) return COUNTED
  if (isAgain(index, logged)) return COUNTED
  const outcome = fold(index, logged)
  if (!outcome.counted) index.ignored.set(outcome.why, (index.ignored.get(outcome.why) ?? 0) + 1)
  shrink(index)
  return outcome
}

/** `records`: all records of an evicted session, in order. */
export const restore = (index: SessionIndex, session: string, records: readonly Logged<TurnsEvent>[]): void => {
  if (!index.forgotten.delete(session)) return
  for (const logged of records) fold(index, logged)
}

export const touch = (index: SessionIndex, session: string): void => {
  const recent = index.recent.get(session)
  if (recent) {
    index.recent.set(session, recent)
    index.listing?.note(session, 'moved')
  } else if (!index.memory) {
    const state = index.fold.sessions.get(session)
    if (state) revive(index, state, state.turns.length)
    shrink(index)
  }
}

const fold = (index: SessionIndex, logged: Logged<TurnsEvent>): FoldOutcome => {
  const { session } = logged.event
  const outcome = foldTurn(index, logged)
  if (!outcome.counted) return outcome
  const turn = turnOf(index, logged)
  const state = index.fold.sessions.get(session)
  if (index.recent.has(session)) touch(index, session)
  else if (state) revive(index, state, turn ? state.turns.length - 1 : state.turns.length)
  const recent = index.recent.get(session)
  if (recent && state) recent.at = state.lastAt
  if (!turn) return outcome
  if (recent) named(index, session, recent, turn)
  if (index.held) index.held.add(heldNamesOf(turn), turn.finishedAt, turn.session, turn.record)
  return outcome
}

/** Indexes the last of the first `count` turns of a session that becomes recent again. */
const revive = (index: SessionIndex, { session, turns: all, lastAt }: SessionState, count: number): void => {
  const begin = all[0]
  const first = Math.max(0, count - MOST_NAMED)
  const recent: RecentSession = {
    at: lastAt,
    place: { partition: begin?.partition ?? 0, offset: begin?.offset ?? 0 },
    first,
    turns: [],
  }
  index.recent.set(session, recent)
  index.listing?.note(session, 'moved')
  const minted = sessionIdPart(session)
  // Of a session whose first turn this is nothing is stored, so that it is not looked for.
  if (count === 0 || !index.byMintedId.has(minted)) index.byMintedId.set(minted, session)
  for (const turn of all.slice(first, count)) named(index, session, recent, turn)
}

const named = (index: SessionIndex, session: string, recent: RecentSession, turn: TurnState): void => {
  const left = addLastName(index, session, recent, turn.turn, namesOf(turn))
  // In memory the turns are held, too, that are no longer named.
  index.turns += index.memory ? 1 : 1 - left
}

/** What names a turn. */
export type NamedBy = Pick<TurnState, 'turn' | 'key' | 'answer' | 'digest' | 'shown' | 'finishedAt' | 'extra'>

/** The names of a turn before others displace any. */
export const namesOf = (turn: NamedBy): Names => {
  const { key, answer, digest, shown } = turn
  const said = extraOf(turn)?.said === true
  return { loose: said ? nameFor(key, answer.loose) : null, asked: shown ? nameFor(key, digest) : null }
}

/** The names under which a turn is held beyond memory. */
export const heldNamesOf = (turn: NamedBy): string[] => {
  const { loose, asked } = namesOf(turn)
  return [loose === null ? [] : [answerName(loose)], asked === null ? [] : [promptName(asked)]].flat()
}

export const shrink = (index: SessionIndex): void => {
  const { limits, recent } = index
  while (recent.size > 1 && (recent.size > limits.sessions || index.turns > limits.turns))
    forget(index, recent.oldest()!)
  while (index.forgotten.size > limits.sessions * FORGOTTEN_PER_SESSION) {
    const oldest = index.forgotten.oldest()!
    index.forgotten.delete(oldest)
    index.byMintedId.delete(sessionIdPart(oldest))
  }
}

const forget = (index: SessionIndex, session: string): void => {
  const recent = index.recent.get(session)!
  index.recent.delete(session)
  index.listing?.note(session, 'changed')
  index.turns -= forgetNames(index, recent)
  const { memory } = index
  if (!memory) return
  const turns = memory.sessions.get(session)?.turns ?? []
  for (const { turn } of turns) memory.turns.delete(turn)
  index.turns -= turns.length - recent.turns.length
  memory.sessions.delete(session)
  index.forgotten.set(session, recent.place)
}

/**
 * Turns of any session of the API key that gave this answer, oldest first. Outer whitespace is ignored: a client that trims `Yes.\n`
 * sends the same text as a client that received `Yes.`.
 */
export const turnsByAnswer = (index: SessionIndex, key: string | null, answer: AnswerKey): TurnState[] =>
  turnsNamed(index.byLoose, nameFor(key, answer.loose)).flatMap(({ turn }) => index.fold.turns.get(turn) ?? [])

/** Turns of any session of the API key with this prompt, oldest first. */
export const turnsByPrompt = (index: SessionIndex, key: string | null, digest: string): TurnState[] =>
  turnsNamed(index.byAsked, nameFor(key, digest)).flatMap(({ turn }) => index.fold.turns.get(turn) ?? [])

export const sessionState = (index: SessionIndex, session: string): SessionState | undefined =>
  index.fold.sessions.get(session)

/** The key of the session; undefined if it has no turns here. */
export const keyOfSession = (index: SessionIndex, session: string): string | null | undefined => {
  return index.fold.sessions.get(session)?.turns[0]?.key
}
