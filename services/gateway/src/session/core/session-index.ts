/**
 * A gateway's state of `turns`: the shared fold, and an index of answers across sessions. Bounded: the sessions touched
 * longest ago are evicted. In memory, only the first position of an evicted session remains, so that it can be read
 * from the log again. With a store, the session remains and only its index entries are removed.
 */
import {
  contentOfAnswer,
  COUNTED,
  foldTurns,
  initialTurns,
  LruMap,
  readWritten,
  wordsHash,
  type AnswerKey,
  type Logged,
  type MemoryTurns,
  type FoldOutcome,
  type SessionState,
  type Table,
  type TurnsEvent,
  type TurnsState,
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

/** What the gateway keeps with a turn. */
export type TurnExtra = {
  /** Number of references from this turn's body to a full copy. */
  bodyDepth: number
  idsDepth: number
  /** Whether its request had tools; null: not known without its body. */
  tools: boolean | null
  /** Whether a client received the answer, so that the turn can be found by it. */
  said: boolean
  /** The words of its content (text-behind.ts), for finding it inside a longer text; null without any. */
  words: string | null
}

export type Limits = { sessions: number; turns: number }
export type SessionIndex = NameIndex & {
  limits: Limits
  fold: TurnsState
  /** Session part of our minted ids (60-bit hash of a session) → session, also for evicted ones. */
  byMintedId: Table<string, string>
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

/** Whether this very record was folded before: delivered twice, or read by `restore` ahead of the tail. */
const isAgain = (index: SessionIndex, { event, partition, offset }: Logged<TurnsEvent>): boolean => {
  const known =
    event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled'
      ? index.fold.turns.get(event.turn)
      : undefined
  return known?.offset === offset && known.partition === partition
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
  const { event } = logged
  const outcome = foldTurns(index.fold, logged)
  if (!outcome.counted) return outcome
  const isTurn = event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled'
  const state = index.fold.sessions.get(event.session)
  if (index.recent.has(event.session)) touch(index, event.session)
  else if (state) revive(index, state, isTurn ? state.turns.length - 1 : state.turns.length)
  const recent = index.recent.get(event.session)
  if (recent && state) recent.at = state.lastAt
  if (!isTurn) return outcome
  const turn = index.fold.turns.get(event.turn)
  if (!turn) return outcome
  const before = (other: string | null) => (other === null ? undefined : extraOf(index.fold.turns.get(other)))
  // The snapshot writes the turn, since it was folded just now.
  turn.extra = {
    bodyDepth: event.body.from === null ? 0 : 1 + (before(event.body.from)?.bodyDepth ?? 0),
    idsDepth: event.prompt.from === null ? 0 : 1 + (before(event.prompt.from)?.idsDepth ?? 0),
    tools: null,
    said: event.type !== 'TurnSampled' && (event.text.bytes.length > 0 || event.toolCallIds.length > 0),
    words: event.type === 'TurnSampled' ? null : wordsHash(contentOfAnswer(readWritten(event.text))),
  } satisfies TurnExtra
  if (recent) named(index, event.session, recent, turn)
  if (index.held) {
    const { loose, asked } = namesOf(turn)
    const names = [loose === null ? [] : [answerName(loose)], asked === null ? [] : [promptName(asked)]].flat()
    index.held.add(names, turn.finishedAt, turn.session, turn.record)
  }
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

export const extraOf = (turn: Pick<TurnState, 'extra'> | undefined): TurnExtra | undefined =>
  turn?.extra as TurnExtra | undefined

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
