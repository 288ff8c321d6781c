/**
 * The recent sessions as a snapshot lists them, in the order of the last touch: which of their turns are named and in which
 * order, and which names were displaced. The names themselves follow from the turns.
 */
import {
  addNamed,
  inOrder,
  type ListChange,
  type NamedTurn,
  type RecentSession,
  type RecordPosition,
  type Shared,
} from './names.ts'
import { namesOf, type NamedBy, type SessionIndex } from './session-index.ts'

/**
 * `seqs`: of the turns from index `first` on, each as its difference from the one before. `lacks`: turns without some of their
 * names, by their place among these, with a bit for each name that is absent.
 */
export type ListedSession = readonly [
  session: string,
  first: number,
  seqs: readonly number[],
  lacks: readonly (readonly [place: number, names: number])[],
]

/**
 * Bits of `lacks`. Earlier builds have an index of strict answers as well, for which they read the lowest bit: it is written with
 * that of the loose answer, and not read.
 */
const LACKS_STRICT = 1
const LACKS_LOOSE = 2
const LACKS_ASKED = 4

/**
 * A change of the list: the session is last, or, with a fifth field, has the place that it had; alone, it is not listed any
 * more. State version 1 has the whole list as changes of the first kind.
 */
export type ListEntry = readonly [
  session: string,
  first?: number,
  seqs?: ListedSession[2],
  lacks?: ListedSession[3],
  inPlace?: 1,
]

export const listEntry = (index: SessionIndex, session: string, change: ListChange): ListEntry => {
  const one = index.recent.get(session)
  if (!one) return [session]
  const now = listed(session, one)
  return change === 'moved' ? now : [...now, 1]
}

/** Applies the next entry of a file to the list of those before it. */
export const applyEntry = (list: Map<string, ListedSession>, entry: ListEntry): void => {
  const [session, first, seqs, lacks, inPlace] = entry
  if (inPlace === undefined) list.delete(session)
  if (first !== undefined && seqs && lacks) list.set(session, [session, first, seqs, lacks])
}

const listed = (session: string, one: RecentSession): ListedSession => {
  let before = 0
  const lacks: [number, number][] = []
  const seqs = one.turns.map(({ seq, loose, asked }, place) => {
    const absent = (loose === null ? LACKS_STRICT | LACKS_LOOSE : 0) | (asked === null ? LACKS_ASKED : 0)
    if (absent > 0) lacks.push([place, absent])
    const step = seq - before
    before = seq
    return step
  })
  return [session, one.first, seqs, lacks]
}

/** What is read of a listed session: the number of its turns, its first record, and what names its turns from one on. */
export type ReadSession = (
  session: string,
  from: number,
) => { count: number; begin: RecordPosition; turns: readonly NamedBy[] } | undefined

/**
 * Adds the sessions of a snapshot, in the order of the last touch. Each step reads one session, or adds one. Yields null after a
 * step, or what is wrong with the list, and then adds none.
 */
export const addListed = function* (
  index: SessionIndex,
  list: ReadonlyMap<string, ListedSession>,
  read: ReadSession,
): Generator<string | null> {
  const sessions: [string, RecentSession][] = []
  for (const [session, one] of [...list].slice(-index.limits.sessions)) {
    const recent = recentOf(one, read)
    if (!recent) return yield `turns of the session ${session} are missing, or more than are listed`
    sessions.push([session, recent])
    yield null
  }
  const shared = new Map<NamedTurn[], Shared>()
  for (const [session, recent] of sessions) {
    index.recent.set(session, recent)
    index.turns += recent.turns.length
    for (const turn of recent.turns) addNamed(index, turn, shared)
    yield null
  }
  for (const one of shared.values()) {
    inOrder(index, one)
    yield null
  }
}

const recentOf = ([session, first, seqs, lacks]: ListedSession, read: ReadSession): RecentSession | null => {
  const state = read(session, first)
  if (!state || state.count !== first + seqs.length || state.turns.length !== seqs.length) return null
  const absent = new Map(lacks)
  let seq = 0
  const turns = seqs.map((step, place): NamedTurn => {
    const turn = state.turns[place]!
    const { loose, asked } = namesOf(turn)
    const lacked = absent.get(place) ?? 0
    seq += step
    return {
      session,
      at: first + place,
      turn: turn.turn,
      loose: lacked & LACKS_LOOSE ? null : loose,
      asked: lacked & LACKS_ASKED ? null : asked,
      seq,
    }
  })
  const shown = state.turns.filter((turn) => turn.shown)
  const at = shown.reduce((latest, { finishedAt }) => Math.max(latest, finishedAt), 0)
  return { at, place: { partition: state.begin.partition, offset: state.begin.offset }, first, turns }
}
