/**
 * The names by which requests without a label find a turn of any session: its answer, strict and loose, and its prompt. A
 * session is found by its last turns only, so that the index of a long one costs no more, and is built as fast.
 */

export type RecordPosition = { partition: number; offset: number }
/** The index keys of a turn: its answer, strict and loose, and its prompt, each of its API key. */
export type Names = readonly [strict: string | null, loose: string | null, asked: string | null]

/**
 * A recent session's data besides its fold. `at`: when it was last touched; `place`: its first record; `turns`: its last
 * MOST_NAMED turns; `first`: the index of the first of these among all turns of the session.
 */
export type RecentSession = {
  at: number
  place: RecordPosition
  first: number
  turns: (readonly [turn: string, names: Names])[]
}

export type NameIndex = {
  /** Answer key of an API key → turns that gave it, oldest first. */
  byStrict: Map<string, string[]>
  byLoose: Map<string, string[]>
  /** Prompt digest of an API key → turns with that prompt, oldest first. */
  byAsked: Map<string, string[]>
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
export type NamedRow = { at: number; turns: RecentSession['turns'] }

/** A copy of the turns of row `n` that are still named; undefined: none. */
export const rowOf = ({ first, turns }: RecentSession, n: number): NamedRow | undefined => {
  const at = Math.max(first, n * NAMES_IN_ROW)
  const named = turns.slice(at - first, Math.max(0, (n + 1) * NAMES_IN_ROW - first))
  return named.length === 0 ? undefined : { at, turns: named }
}

/** A name in the index of answers and prompts: each API key has its own, so that none displaces turns of another. */
export const nameFor = (key: string | null, name: string): string => (key === null ? name : `${key} ${name}`)

export const addName = (index: NameIndex, recent: RecentSession, turn: string, names: Names): void => {
  const [strict, loose, asked] = names
  recent.turns.push([turn, names])
  if (strict !== null) remember(index.byStrict, strict, turn)
  if (loose !== null) remember(index.byLoose, loose, turn)
  if (asked !== null) remember(index.byAsked, asked, turn)
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
  changed?.rows.add(rowKey(session, Math.floor((recent.first + recent.turns.length) / NAMES_IN_ROW)))
  addName(index, recent, turn, names)
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

const forgetTurn = (index: NameIndex, [turn, [strict, loose, asked]]: RecentSession['turns'][number]): void => {
  if (strict !== null) forgetName(index.byStrict, strict, turn)
  if (loose !== null) forgetName(index.byLoose, loose, turn)
  if (asked !== null) forgetName(index.byAsked, asked, turn)
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
