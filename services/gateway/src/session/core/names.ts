/**
 * The names by which requests without a label find a turn of any session: its answer and its prompt. A session is found by its
 * last turns only, so that the index of a long one costs no more, and is built as fast.
 */

export type RecordPosition = { partition: number; offset: number }
/** The index keys of a turn: its answer, without outer white space, and its prompt, each of its API key; null: it has none. */
export type Names = { loose: string | null; asked: string | null }

/**
 * A turn and the names by which it is found; a name is null once 256 later turns displaced it. `at`: its index among the
 * turns of its session. `seq`: the order in which turns were named, over all sessions, which a restart keeps.
 */
export type NamedTurn = Names & { session: string; at: number; turn: string; seq: number }

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
  byLoose: TurnsByName
  /** Prompt digest of an API key → turns with that prompt. */
  byAsked: TurnsByName
}

/** Most names are of one turn, for which a list would cost as much again. */
export type TurnsByName = Map<string, NamedTurn | NamedTurn[]>

export const turnsNamed = (turns: TurnsByName, name: string): readonly NamedTurn[] => {
  const found = turns.get(name)
  return found === undefined ? [] : Array.isArray(found) ? found : [found]
}

/** Turns of a session by which it is found. */
export const MOST_NAMED = 2_048
/** Maximum number of turns per answer and API key in the index. */
const SAME_ANSWER = 256

/** A name in the index of answers and prompts: each API key has its own, so that none displaces turns of another. */
export const nameFor = (key: string | null, name: string): string => (key === null ? name : `${key} ${name}`)

/** Turns of one name, and which of their names it is. */
export type Shared = { turns: NamedTurn[]; which: keyof Names }

/**
 * Adds a turn of a snapshot to the index. Turns come in any order: `shared` gets the names of several, of which `inOrder` is to
 * be called once all are added.
 */
export const addNamed = (index: NameIndex, turn: NamedTurn, shared: Map<NamedTurn[], Shared>): void => {
  for (const which of WHICH) {
    const turns = add(index, turn, which)
    if (turns) shared.set(turns, { turns, which })
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
  const at = recent.first + recent.turns.length
  const named: NamedTurn = { session, at, turn, loose: names.loose, asked: names.asked, seq: index.seq }
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

const WHICH = ['loose', 'asked'] as const
const turnsBy = ({ byLoose, byAsked }: NameIndex, which: keyof Names): TurnsByName =>
  which === 'loose' ? byLoose : byAsked

/** Returns the turns of the name if they are several now. */
const add = (index: NameIndex, turn: NamedTurn, which: keyof Names): NamedTurn[] | null => {
  const name = turn[which]
  if (name === null) return null
  const all = turnsBy(index, which)
  const before = all.get(name)
  if (before === undefined) {
    all.set(name, turn)
    return null
  }
  if (Array.isArray(before)) {
    before.push(turn)
    return before
  }
  const turns = [before, turn]
  all.set(name, turns)
  return turns
}

const rememberTurn = (index: NameIndex, turn: NamedTurn): void => {
  for (const which of WHICH) {
    const turns = add(index, turn, which)
    if (turns && turns.length > SAME_ANSWER) displace(index, turns.shift()!, which)
  }
}

const displace = (index: NameIndex, turn: NamedTurn, which: keyof Names): void => {
  turn[which] = null
  index.listing?.note(turn.session, 'changed')
}

const forgetTurn = (index: NameIndex, turn: NamedTurn): void => {
  for (const which of WHICH) {
    const name = turn[which]
    if (name === null) continue
    const all = turnsBy(index, which)
    const turns = all.get(name)
    if (!Array.isArray(turns)) {
      if (turns === turn) all.delete(name)
      continue
    }
    const left = turns.filter((other) => other !== turn)
    if (left.length > 0) all.set(name, left)
    else all.delete(name)
  }
}
