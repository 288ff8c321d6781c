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

export type NameIndex = {
  /** `seq` of the next turn that is named. */
  seq: number
  /** Answer key of an API key → turns that gave it, in the order in which they were named. */
  byStrict: Map<string, NamedTurn[]>
  byLoose: Map<string, NamedTurn[]>
  /** Prompt digest of an API key → turns with that prompt. */
  byAsked: Map<string, NamedTurn[]>
  /** What changed of the recent sessions since the last snapshot; null without snapshots. */
  changed: ChangedRecent | null
}

/** `sessions`: folded, evicted or touched ones. `rows`: rows of names (`rowKey`) that have other turns. */
export type ChangedRecent = { sessions: Set<string>; rows: Set<string> }

/** Turns of a session by which it is found. */
export const MOST_NAMED = 2_048
/** Turns of a session in a row of the snapshot. */
export const NAMES_IN_ROW = 128
/** Maximum number of turns per answer and API key in the index. */
const SAME_ANSWER = 256

/** Row `n` of a session: the turns from index `n * NAMES_IN_ROW` on. */
export const rowKey = (session: string, n: number): string => `${n} ${session}`
export const parseRowKey = (key: string): { session: string; n: number } => {
  const at = key.indexOf(' ')
  return { session: key.slice(at + 1), n: Number(key.slice(0, at)) }
}

/** `at`: the index of the first of the turns among all of the session. */
export type NamedRow = { at: number; turns: (readonly [turn: string, names: Names, seq: number])[] }

/** A copy of the turns of row `n` that are still named; undefined: none. */
export const rowOf = ({ first, turns }: RecentSession, n: number): NamedRow | undefined => {
  const at = Math.max(first, n * NAMES_IN_ROW)
  const named = turns.slice(at - first, Math.max(0, (n + 1) * NAMES_IN_ROW - first))
  return named.length === 0 ? undefined : { at, turns: named.map(({ turn, names, seq }) => [turn, names, seq]) }
}

/** A name in the index of answers and prompts: each API key has its own, so that none displaces turns of another. */
export const nameFor = (key: string | null, name: string): string => (key === null ? name : `${key} ${name}`)

/** Adds turns of a snapshot to the index, in the order in which they were named. */
export const addNamed = (index: NameIndex, turns: readonly NamedTurn[]): void => {
  for (const turn of turns.toSorted((a, b) => a.seq - b.seq)) {
    rememberTurn(index, turn)
    index.seq = turn.seq + 1
  }
}

/** Adds the session's last turn. Returns the number of turns, 0 or 1, that are no longer named. */
export const addLastName = (
  index: NameIndex,
  session: string,
  recent: RecentSession,
  turn: string,
  names: Names,
): number => {
  const { changed } = index
  const named: NamedTurn = { session, at: recent.first + recent.turns.length, turn, names, seq: index.seq }
  index.seq += 1
  changed?.rows.add(rowOfTurn(named))
  recent.turns.push(named)
  rememberTurn(index, named)
  if (recent.turns.length <= MOST_NAMED) return 0
  forgetTurn(index, recent.turns.shift()!)
  recent.first += 1
  // A row that has lost some of its turns is not written again: `first` tells which. An empty one is deleted.
  if (recent.first % NAMES_IN_ROW === 0) changed?.rows.add(rowKey(session, recent.first / NAMES_IN_ROW - 1))
  return 1
}

/** Removes the names of a session. Returns the number of its named turns. */
export const forgetNames = (index: NameIndex, session: string, { first, turns }: RecentSession): number => {
  for (const turn of turns) forgetTurn(index, turn)
  for (let n = Math.floor(first / NAMES_IN_ROW); n * NAMES_IN_ROW < first + turns.length; n += 1)
    index.changed?.rows.add(rowKey(session, n))
  return turns.length
}

const rowOfTurn = ({ session, at }: NamedTurn): string => rowKey(session, Math.floor(at / NAMES_IN_ROW))

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

/** In a snapshot too, since the order in which names were displaced does not follow from what is left. */
const displace = ({ changed }: NameIndex, turn: NamedTurn, which: number): void => {
  const [strict, loose, asked] = turn.names.map((name, at) => (at === which ? null : name))
  turn.names = [strict ?? null, loose ?? null, asked ?? null]
  changed?.rows.add(rowOfTurn(turn))
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
