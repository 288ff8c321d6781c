/**
 * What a gateway remembers of `turns`: the shared fold, and over it our answers across sessions. Bounded: the
 * sessions that were touched longest ago are forgotten; of a forgotten one only its first position stays, so
 * that it can be read again from the log.
 */
import { COUNTED, foldTurns, initialTurns, type AnswerKey, type Logged, type Outcome, type SessionState, type TurnsEvent, type TurnState, type MemoryTurns } from '@instar/events'
import { sessionMark } from '@instar/dialects'

export type TurnExtra = {
  /** The key that asked. */
  key: string | null
  /** How many references in a row lead to full copies. */
  bodyDepth: number
  idsDepth: number
  /** Whether its request brought tools; null: not known without its body. */
  tools: boolean | null
  /** Whether it said anything by which it is found. */
  said: boolean
}

export type Limits = { sessions: number; turns: number }
export type Place = { partition: number; offset: number }

export type SessionIndex = {
  limits: Limits
  fold: MemoryTurns
  extras: Map<string, TurnExtra>
  /** Answer key → turns that gave it, oldest first. */
  byStrict: Map<string, string[]>
  byLoose: Map<string, string[]>
  /** What was asked → turns whose answer to it was cut, oldest first. */
  byCut: Map<string, string[]>
  /** A session's 60 bits → the session; forgotten ones too. */
  byMark: Map<string, string>
  /** Sessions in the order in which they were touched. */
  recent: Map<string, Place>
  forgotten: Map<string, Place>
  /** Records that did not count, by reason. */
  ignored: Map<string, number>
  /** Sessions that were folded, forgotten or read again since a snapshot was taken; null where none is taken. */
  changed: Set<string> | null
}

/** Of an answer that many turns gave, this many are remembered. */
const SAME_ANSWER = 256
const FORGOTTEN_PER_SESSION = 20

export const initialIndex = (limits: Limits): SessionIndex => ({
  limits, fold: initialTurns(), extras: new Map(), byStrict: new Map(), byLoose: new Map(), byCut: new Map(), byMark: new Map(), recent: new Map(), forgotten: new Map(), ignored: new Map(), changed: null,
})

/** A record of `turns` as it comes back in log order. One of a forgotten session waits for `restore`. */
export const evolveIndex = (index: SessionIndex, logged: Logged<TurnsEvent>): Outcome => {
  if (index.forgotten.has(logged.key)) return COUNTED
  if (isAgain(index, logged)) return COUNTED
  const outcome = fold(index, logged)
  if (!outcome.counted) index.ignored.set(outcome.why, (index.ignored.get(outcome.why) ?? 0) + 1)
  shrink(index)
  return outcome
}

/** The very record that was folded already: delivered twice, or read by `restore` before the tail came to it. */
const isAgain = (index: SessionIndex, { event, partition, offset }: Logged<TurnsEvent>): boolean => {
  const known = event.type === 'TurnCaptured' || event.type === 'TurnAborted' ? index.fold.turns.get(event.turn) : undefined
  return known?.offset === offset && known.partition === partition
}

/** All records of a forgotten session, in order. */
export const restore = (index: SessionIndex, session: string, records: readonly Logged<TurnsEvent>[]): void => {
  if (!index.forgotten.delete(session)) return
  index.changed?.add(session)
  for (const logged of records) fold(index, logged)
}

export const touch = (index: SessionIndex, session: string): void => {
  const place = index.recent.get(session)
  if (!place) return
  index.recent.delete(session)
  index.recent.set(session, place)
}

const fold = (index: SessionIndex, logged: Logged<TurnsEvent>): Outcome => {
  const { event } = logged
  const outcome = foldTurns(index.fold, logged)
  if (!outcome.counted) return outcome
  const { session } = event
  index.changed?.add(session)
  if (index.recent.has(session)) touch(index, session)
  else {
    index.recent.set(session, { partition: logged.partition, offset: logged.offset })
    index.byMark.set(sessionMark(session), session)
  }
  if (event.type !== 'TurnCaptured' && event.type !== 'TurnAborted') return outcome
  const before = (turn: string | null) => (turn === null ? undefined : index.extras.get(turn))
  index.extras.set(event.turn, {
    key: event.key,
    bodyDepth: event.body.from === null ? 0 : 1 + (before(event.body.from)?.bodyDepth ?? 0),
    idsDepth: event.prompt.from === null ? 0 : 1 + (before(event.prompt.from)?.idsDepth ?? 0),
    tools: null,
    said: event.text.bytes.length > 0 || event.toolCallIds.length > 0,
  })
  if (index.extras.get(event.turn)?.said) {
    remember(index.byStrict, event.answer.strict, event.turn)
    remember(index.byLoose, event.answer.loose, event.turn)
  }
  if (event.type === 'TurnAborted') remember(index.byCut, event.digest, event.turn)
  return outcome
}

/** What a snapshot holds of a session: all of it, or of a forgotten one its place. */
export type KeptSession = { place: Place; state: SessionState; extras: (TurnExtra | undefined)[] } | { place: Place }

export const keptSession = (index: SessionIndex, session: string): KeptSession | undefined => {
  const place = index.recent.get(session)
  const state = index.fold.sessions.get(session)
  if (place && state) return { place, state, extras: state.turns.map(({ turn }) => index.extras.get(turn)) }
  const forgotten = index.forgotten.get(session)
  return forgotten && { place: forgotten }
}

/** A session of a snapshot. Those that were touched last come last; `settle` when all have come. */
export const addKept = (index: SessionIndex, session: string, kept: KeptSession): void => {
  index.byMark.set(sessionMark(session), session)
  if (!('state' in kept)) {
    index.forgotten.set(session, kept.place)
    return
  }
  index.recent.set(session, kept.place)
  index.fold.sessions.set(session, kept.state)
  for (const [i, turn] of kept.state.turns.entries()) {
    index.fold.turns.set(turn.turn, turn)
    const extra = kept.extras[i]
    if (!extra) continue
    index.extras.set(turn.turn, extra)
    if (!extra.said) continue
    addTo(index.byStrict, turn.answer.strict, turn.turn)
    addTo(index.byLoose, turn.answer.loose, turn.turn)
  }
}

/** Of each answer the turns in the order of their requests, and as many as are remembered; as many sessions as there is room for. */
export const settle = (index: SessionIndex): void => {
  const at = (turn: string): number => index.fold.turns.get(turn)?.at ?? 0
  for (const map of [index.byStrict, index.byLoose]) {
    for (const [key, turns] of map) if (turns.length > 1) map.set(key, turns.sort((a, b) => at(a) - at(b)).slice(-SAME_ANSWER))
  }
  shrink(index)
}

const addTo = (map: Map<string, string[]>, key: string, turn: string): void => {
  const turns = map.get(key)
  if (turns) turns.push(turn)
  else map.set(key, [turn])
}

const remember = (map: Map<string, string[]>, key: string, turn: string): void => {
  const turns = map.get(key)
  if (!turns) map.set(key, [turn])
  else if (turns.push(turn) > SAME_ANSWER) turns.shift()
}

const forgetAnswer = (map: Map<string, string[]>, key: string, turn: string): void => {
  const left = map.get(key)?.filter((other) => other !== turn)
  if (!left) return
  if (left.length > 0) map.set(key, left)
  else map.delete(key)
}

const shrink = (index: SessionIndex): void => {
  const { limits, recent, fold: state } = index
  while (recent.size > 1 && (recent.size > limits.sessions || state.turns.size > limits.turns)) forget(index, recent.keys().next().value!)
  while (index.forgotten.size > limits.sessions * FORGOTTEN_PER_SESSION) {
    const oldest = index.forgotten.keys().next().value!
    index.forgotten.delete(oldest)
    index.changed?.add(oldest)
    index.byMark.delete(sessionMark(oldest))
  }
}

const forget = (index: SessionIndex, session: string): void => {
  for (const turn of index.fold.sessions.get(session)?.turns ?? []) {
    index.fold.turns.delete(turn.turn)
    index.extras.delete(turn.turn)
    forgetAnswer(index.byStrict, turn.answer.strict, turn.turn)
    forgetAnswer(index.byLoose, turn.answer.loose, turn.turn)
    if (turn.status === 'aborted') forgetAnswer(index.byCut, turn.digest, turn.turn)
  }
  index.changed?.add(session)
  index.fold.sessions.delete(session)
  index.forgotten.set(session, index.recent.get(session)!)
  index.recent.delete(session)
}

/** Turns of any session that gave this answer, oldest first: by the strict key, else by the loose one. */
export const turnsThatSaid = (index: SessionIndex, answer: AnswerKey): TurnState[] =>
  (index.byStrict.get(answer.strict) ?? index.byLoose.get(answer.loose) ?? []).flatMap((turn) => index.fold.turns.get(turn) ?? [])

/** Turns of any session that were asked this and cut, oldest first. */
export const turnsThatWereCut = (index: SessionIndex, digest: string): TurnState[] =>
  (index.byCut.get(digest) ?? []).flatMap((turn) => index.fold.turns.get(turn) ?? [])

export const sessionState = (index: SessionIndex, session: string): SessionState | undefined => index.fold.sessions.get(session)

/** The key whose session it is; undefined if the session has no turn here. */
export const keyOfSession = (index: SessionIndex, session: string): string | null | undefined => {
  const first = index.fold.sessions.get(session)?.turns[0]
  return first && index.extras.get(first.turn)?.key
}
