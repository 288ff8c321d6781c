/**
 * The names by which requests without a label find a turn of any session: its answer, strict and loose, and its prompt. A
 * session is found by its last turns only, so that the index of a long one costs no more, and is built as fast.
 */

export type RecordPosition = { partition: number; offset: number }
/** The index keys of a turn: its answer, strict and loose, and its prompt, each of its API key. */
export type Names = readonly [strict: string | null, loose: string | null, asked: string | null]

/**
 * A turn and the names by which it is found; a name is null once 256 later turns displaced it. `at`: its index among the
 * turns of its session. `seq`: the order in which turns were named, over all sessions, which a restart keeps.
 */
export type NamedTurn = { session: string; at: number; turn: string; names: Names; seq: number }

/**
 * A recent session's data besides its fold. `at`: when it was last touched; `place`: its first record; `turns`: its last
 * MOST_NAMED turns; `first`: the index of the first of these among all turns of the session.
 */
export type RecentSession = {
  at: number
  place: RecordPosition
  first: number
  turns: NamedTurn[]
}

/** `moved`: the session is the last that was touched; `changed`: it has its place among the others, or is not recent any more. */
export type ListChange = 'moved' | 'changed'

export type NameIndex = {
  /** Is told of each change of what a snapshot lists of a session; null without a snapshot. */
  listing: { note(session: string, change: ListChange): void } | null
  /** `seq` of the next turn that is named. */
  seq: number
  /** Answer key of an API key → turns that gave it, in the order in which they were named. */
  byStrict: Map<string, NamedTurn[]>
  byLoose: Map<string, NamedTurn[]>
  /** Prompt digest of an API key → turns with that prompt. */
  byAsked: Map<string, NamedTurn[]>
}

/** Turns of a session by which it is found. */
export const MOST_NAMED = 2_048
/** Maximum number of turns per answer and API key in the index. */
const SAME_ANSWER = 256

/** A name in the index of answers and prompts: each API key has its own, so that none displaces turns of another. */
export const nameFor = (key: string | null, name: string): string => (key === null ? name : `${key} ${name}`)

/** Turns of one name, and which of their names it is. */
export type Shared = { turns: NamedTurn[]; which: number }

/**
 * Adds a turn of a snapshot to the index. Turns come in any order: `shared` gets the names of several, of which `inOrder` is to
 * be called once all are added.
 */
export const addNamed = (index: NameIndex, turn: NamedTurn, shared: Map<NamedTurn[], Shared>): void => {
  for (const [which, list] of listsOf(index).entries()) {
    const name = turn.names[which] ?? null
    if (name === null) continue
    const turns = list.get(name)
    if (!turns) list.set(name, [turn])
    else {
      turns.push(turn)
      shared.set(turns, { turns, which })
    }
  }
  index.seq = Math.max(index.seq, turn.seq + 1)
}

/** Puts the turns of a name into the order in which they were named. */
export const inOrder = (index: NameIndex, { turns, which }: Shared): void => {
  turns.sort((a, b) => a.seq - b.seq)
  for (const turn of turns.splice(0, Math.max(0, turns.length - SAME_ANSWER))) displace(index, turn, which)
}

/** Adds the session's last turn. Returns the number of turns, 0 or 1, that are no longer named. */
export const addLastName = (
  index: NameIndex,
  session: string,
  recent: RecentSession,
  turn: string,
  names: Names,
): number => {
  const named: NamedTurn = { session, at: recent.first + recent.turns.length, turn, names, seq: index.seq }
  index.seq += 1
  recent.turns.push(named)
  rememberTurn(index, named)
  if (recent.turns.length <= MOST_NAMED) return 0
  forgetTurn(index, recent.turns.shift()!)
  recent.first += 1
  return 1
}

/** Removes the names of a session. Returns the number of its named turns. */
export const forgetNames = (index: NameIndex, { turns }: RecentSession): number => {
  for (const turn of turns) forgetTurn(index, turn)
  return turns.length
}

const listsOf = ({ byStrict, byLoose, byAsked }: NameIndex) => [byStrict, byLoose, byAsked] as const

const rememberTurn = (index: NameIndex, turn: NamedTurn): void => {
  for (const [which, list] of listsOf(index).entries()) {
    const name = turn.names[which] ?? null
    if (name === null) continue
    const turns = list.get(name)
    if (!turns) list.set(name, [turn])
    else if (turns.push(turn) > SAME_ANSWER) displace(index, turns.shift()!, which)
  }
}

const displace = (index: NameIndex, turn: NamedTurn, which: number): void => {
  const [strict, loose, asked] = turn.names.map((name, at) => (at === which ? null : name))
  turn.names = [strict ?? null, loose ?? null, asked ?? null]
  index.listing?.note(turn.session, 'changed')
}

const forgetTurn = (index: NameIndex, turn: NamedTurn): void => {
  for (const [which, list] of listsOf(index).entries()) {
    const name = turn.names[which] ?? null
    const left = name === null ? undefined : list.get(name)?.filter((other) => other !== turn)
    if (name === null || !left) continue
    if (left.length > 0) list.set(name, left)
    else list.delete(name)
  }
}
