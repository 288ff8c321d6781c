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

export type TurnExtra = {
  /** The key of the request. */
  key: string | null
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
type RecordPosition = { partition: number; offset: number }
/** The index keys of a turn: its answer, strict and loose, and its prompt, each of its API key. */
export type Names = readonly [strict: string | null, loose: string | null, asked: string | null]
/** A recent session's data besides its fold. `at`: when it was last touched; `place`: its first record. */
export type RecentSession = { at: number; place: RecordPosition; turns: (readonly [turn: string, names: Names])[] }

export type SessionIndex = {
  limits: Limits
  fold: TurnsState
  extras: Table<string, TurnExtra>
  /** Answer key of an API key → turns that gave it, oldest first. */
  byStrict: Map<string, string[]>
  byLoose: Map<string, string[]>
  /** Prompt digest of an API key → turns with that prompt, oldest first. */
  byAsked: Map<string, string[]>
  /** Session part of our minted ids (60-bit hash of a session) → session, also for evicted ones. */
  byMintedId: Table<string, string>
  /** Sessions in the order in which they were touched, with the number of turns they hold. */
  recent: LruMap<string, RecentSession>
  turns: number
  forgotten: LruMap<string, RecordPosition>
  /** Records that did not count, by reason. */
  ignored: Map<string, number>
  /** The state from which sessions are evicted; null where fold and extras are in a store. */
  memory: { fold: MemoryTurns; extras: Map<string, TurnExtra> } | null
  /** Sessions that were folded, evicted or touched since the snapshot began; null while none is taken. */
  changed: Set<string> | null
}

/** Maximum number of turns per answer and API key in the index. */
const SAME_ANSWER = 256
const FORGOTTEN_PER_SESSION = 20

export const initialIndex = (limits: Limits): SessionIndex => {
  const memory = { fold: initialTurns(), extras: new Map<string, TurnExtra>() }
  return {
    limits,
    ...memory,
    byStrict: new Map(),
    byLoose: new Map(),
    byAsked: new Map(),
    byMintedId: new Map(),
    recent: new LruMap(),
    turns: 0,
    forgotten: new LruMap(),
    ignored: new Map(),
    memory,
    changed: null,
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
  index.changed?.add(session)
  for (const logged of records) fold(index, logged)
}

export const touch = (index: SessionIndex, session: string): void => {
  const recent = index.recent.get(session)
  if (recent) index.recent.set(session, recent)
  else if (!index.memory) {
    const state = index.fold.sessions.get(session)
    if (state) revive(index, state, state.turns)
    shrink(index)
  }
}

const fold = (index: SessionIndex, logged: Logged<TurnsEvent>): FoldOutcome => {
  const { event } = logged
  const outcome = foldTurns(index.fold, logged)
  if (!outcome.counted) return outcome
  index.changed?.add(event.session)
  const isTurn = event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled'
  const state = index.fold.sessions.get(event.session)
  if (index.recent.has(event.session)) touch(index, event.session)
  else if (state) revive(index, state, isTurn ? state.turns.slice(0, -1) : state.turns)
  const recent = index.recent.get(event.session)
  if (recent && state) recent.at = state.lastAt
  if (!isTurn) return outcome
  const before = (turn: string | null) => (turn === null ? undefined : index.extras.get(turn))
  index.extras.set(event.turn, {
    key: event.key,
    bodyDepth: event.body.from === null ? 0 : 1 + (before(event.body.from)?.bodyDepth ?? 0),
    idsDepth: event.prompt.from === null ? 0 : 1 + (before(event.prompt.from)?.idsDepth ?? 0),
    tools: null,
    said: event.type !== 'TurnSampled' && (event.text.bytes.length > 0 || event.toolCallIds.length > 0),
    words: event.type === 'TurnSampled' ? null : wordsHash(contentOfAnswer(readWritten(event.text))),
  })
  const turn = index.fold.turns.get(event.turn)
  if (turn && recent) lead(index, recent, event.turn, namesOf(index, turn))
  return outcome
}

/** Indexes the turns of a session that becomes recent again. */
const revive = (
  index: SessionIndex,
  { session, turns: all, lastAt }: SessionState,
  turns: readonly TurnState[],
): void => {
  const first = all[0]
  const recent: RecentSession = {
    at: lastAt,
    place: { partition: first?.partition ?? 0, offset: first?.offset ?? 0 },
    turns: [],
  }
  index.recent.set(session, recent)
  index.changed?.add(session)
  const minted = sessionIdPart(session)
  if (!index.byMintedId.has(minted)) index.byMintedId.set(minted, session)
  for (const turn of turns) lead(index, recent, turn.turn, namesOf(index, turn))
}

const namesOf = (index: SessionIndex, turn: TurnState): Names => {
  const { said = false, key = null } = index.extras.get(turn.turn) ?? {}
  return [
    said ? nameFor(key, turn.answer.strict) : null,
    said ? nameFor(key, turn.answer.loose) : null,
    turn.shown ? nameFor(key, turn.digest) : null,
  ]
}

/** A name in the index of answers and prompts: each API key has its own, so that none displaces turns of another. */
export const nameFor = (key: string | null, name: string): string => (key === null ? name : `${key} ${name}`)

const lead = (index: SessionIndex, recent: RecentSession, turn: string, names: Names): void => {
  const [strict, loose, asked] = names
  recent.turns.push([turn, names])
  index.turns += 1
  if (strict !== null) remember(index.byStrict, strict, turn)
  if (loose !== null) remember(index.byLoose, loose, turn)
  if (asked !== null) remember(index.byAsked, asked, turn)
}

/** Adds a session of a snapshot. Call in the order of the last touch. */
export const addFromSnapshot = (index: SessionIndex, session: string, { at, place, turns }: RecentSession): void => {
  const recent: RecentSession = { at, place, turns: [] }
  index.recent.set(session, recent)
  for (const [turn, names] of turns) lead(index, recent, turn, names)
}

const remember = (map: Map<string, string[]>, key: string, turn: string): void => {
  const turns = map.get(key)
  if (!turns) map.set(key, [turn])
  else if (turns.push(turn) > SAME_ANSWER) turns.shift()
}

const forgetName = (map: Map<string, string[]>, key: string, turn: string): void => {
  const left = map.get(key)?.filter((other) => other !== turn)
  if (!left) return
  if (left.length > 0) map.set(key, left)
  else map.delete(key)
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
  const { place, turns } = index.recent.get(session)!
  index.recent.delete(session)
  for (const [turn, [strict, loose, asked]] of turns) {
    if (strict !== null) forgetName(index.byStrict, strict, turn)
    if (loose !== null) forgetName(index.byLoose, loose, turn)
    if (asked !== null) forgetName(index.byAsked, asked, turn)
    index.memory?.fold.turns.delete(turn)
    index.memory?.extras.delete(turn)
  }
  index.turns -= turns.length
  index.changed?.add(session)
  if (index.memory) {
    index.memory.fold.sessions.delete(session)
    index.forgotten.set(session, place)
  }
}

/**
 * Turns of any session of the API key that gave this answer, oldest first. Outer whitespace is ignored: a client that trims `Yes.\n`
 * sends the same text as a client that received `Yes.`.
 */
export const turnsByAnswer = (index: SessionIndex, key: string | null, answer: AnswerKey): TurnState[] =>
  (index.byLoose.get(nameFor(key, answer.loose)) ?? []).flatMap((turn) => index.fold.turns.get(turn) ?? [])

/** Turns of any session of the API key with this prompt, oldest first. */
export const turnsByPrompt = (index: SessionIndex, key: string | null, digest: string): TurnState[] =>
  (index.byAsked.get(nameFor(key, digest)) ?? []).flatMap((turn) => index.fold.turns.get(turn) ?? [])

export const sessionState = (index: SessionIndex, session: string): SessionState | undefined =>
  index.fold.sessions.get(session)

/** The key of the session; undefined if it has no turns here. */
export const keyOfSession = (index: SessionIndex, session: string): string | null | undefined => {
  const first = index.fold.sessions.get(session)?.turns[0]
  return first && index.extras.get(first.turn)?.key
}
