/**
 * The recent sessions as a snapshot lists them, in the order of the last touch: which of their turns are named and in which
 * order, and which names were displaced. The names themselves follow from the turns.
 */
import { addNamed, type Names, type NamedTurn, type RecentSession } from './names.ts'
import { namesOf, sessionState, type SessionIndex } from './session-index.ts'

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

/** Undefined for a session that is not recent any more. */
export const listed = ({ recent }: SessionIndex, session: string): ListedSession | undefined => {
  const one = recent.get(session)
  if (!one) return undefined
  let before = 0
  const lacks: [number, number][] = []
  const seqs = one.turns.map(({ seq, names }, place) => {
    const absent = names.reduce((bits, name, which) => bits | (Number(name === null) << which), 0)
    if (absent > 0) lacks.push([place, absent])
    const step = seq - before
    before = seq
    return step
  })
  return [session, one.first, seqs, lacks]
}

/**
 * Adds the sessions of a snapshot, in the order of the last touch; of one that is listed twice the later counts. Returns what is
 * wrong with them, and then adds none; null: nothing.
 */
export const addListed = (index: SessionIndex, list: readonly ListedSession[]): string | null => {
  const latest = new Map<string, ListedSession>()
  for (const one of list.slice(-index.limits.sessions)) {
    latest.delete(one[0])
    latest.set(one[0], one)
  }
  const sessions: [string, RecentSession][] = []
  for (const [session, one] of latest) {
    const recent = recentOf(index, one)
    if (!recent) return `turns of the session ${session} are missing, or more than are listed`
    sessions.push([session, recent])
  }
  for (const [session, recent] of sessions) {
    index.recent.set(session, recent)
    index.turns += recent.turns.length
  }
  addNamed(
    index,
    sessions.flatMap(([, { turns }]) => turns),
  )
  return null
}

const recentOf = (index: SessionIndex, [session, first, seqs, lacks]: ListedSession): RecentSession | null => {
  const state = sessionState(index, session)
  const begin = state?.turns[0]
  if (!state || !begin || state.turns.length !== first + seqs.length) return null
  const absent = new Map(lacks)
  let seq = 0
  const turns = seqs.map((step, place): NamedTurn => {
    const turn = state.turns[first + place]!
    const names = namesOf(turn).map((name, which) => (((absent.get(place) ?? 0) >> which) & 1 ? null : name))
    seq += step
    return { session, at: first + place, turn: turn.turn, names: names as unknown as Names, seq }
  })
  return { at: state.lastAt, place: { partition: begin.partition, offset: begin.offset }, first, turns }
}
