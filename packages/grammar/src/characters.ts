/** Automata over Unicode characters without surrogates, for texts and patterns before their encoding as JSON. */
import { tooLarge, type Budget } from './schema-errors.ts'

/**
 * A deterministic automaton. Class c contains the code points from `cuts[c]` (inclusive) to `cuts[c + 1]` (exclusive);
 * `table[state][class]` is the next state or -1. State 0 is the start.
 */
export type CharacterAutomaton = { cuts: readonly number[]; table: readonly Int32Array[]; accepts: readonly boolean[] }

export const END_OF_UNICODE = 0x110000

export function classOf({ cuts }: Pick<CharacterAutomaton, 'cuts'>, character: number): number {
  let low = 0
  let high = cuts.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((cuts[middle] ?? 0) <= character) low = middle
    else high = middle - 1
  }
  return low
}

/** Sorted, unique cuts. 0xd800 and 0xe000 are always cuts, so that surrogates have their own class. */
export const cutsOf = (borders: Iterable<number>): number[] =>
  [...new Set([0, 0xd800, 0xe000, ...borders])].filter((at) => at < END_OF_UNICODE).sort((a, b) => a - b)

export const isSurrogate = (cut: number): boolean => cut >= 0xd800 && cut < 0xe000

/** Without the states from which no text is accepted; null if the start is one of them. */
export function trimmed({ cuts, table, accepts }: CharacterAutomaton): CharacterAutomaton | null {
  const predecessors: number[][] = table.map(() => [])
  for (const [from, row] of table.entries()) for (const to of new Set(row)) if (to >= 0) predecessors[to]?.push(from)
  const live = new Set<number>()
  const pending = accepts.flatMap((accepting, state) => (accepting ? [state] : []))
  for (let state = pending.pop(); state !== undefined; state = pending.pop()) {
    if (live.has(state)) continue
    live.add(state)
    pending.push(...(predecessors[state] ?? []))
  }
  if (!live.has(0)) return null
  return { cuts, accepts, table: table.map((row) => row.map((to) => (live.has(to) ? to : -1))) }
}

/** The intersection. */
export function intersection(a: CharacterAutomaton, b: CharacterAutomaton, budget: Budget): CharacterAutomaton {
  const cuts = cutsOf([...a.cuts, ...b.cuts])
  const classes = cuts.map((cut) => [classOf(a, cut), classOf(b, cut)] as const)
  const pairs: [number, number][] = [[0, 0]]
  const ids = new Map([['0,0', 0]])
  const table: Int32Array[] = []
  for (let at = 0; at < pairs.length; at++) {
    budget.spend(4 * cuts.length, 'pattern')
    const [x, y] = pairs[at]!
    table.push(
      Int32Array.from(classes, ([i, j]) => {
        const to = [a.table[x]?.[i] ?? -1, b.table[y]?.[j] ?? -1] as const
        if (to[0] < 0 || to[1] < 0) return -1
        const key = to.join(',')
        let id = ids.get(key)
        if (id === undefined) {
          id = pairs.length
          ids.set(key, id)
          pairs.push([...to])
        }
        return id
      }),
    )
  }
  return { cuts, table, accepts: pairs.map(([x, y]) => Boolean(a.accepts[x] && b.accepts[y])) }
}

const PLAIN_CUTS = cutsOf([])

/** Maximum supported length of a text. */
const MAX_LENGTH = 8192

/** All texts of `min` to `max` characters; null if there are none. */
export function ofLength(min: number, max: number, budget: Budget): CharacterAutomaton | null {
  if (min > MAX_LENGTH) throw tooLarge('minLength')
  if (min > max) return null
  const last = max === Infinity ? min : Math.min(max, MAX_LENGTH)
  budget.spend(8 * last, 'maxLength')
  const step = (state: number): number => (state < last ? state + 1 : max === Infinity ? last : -1)
  return {
    cuts: PLAIN_CUTS,
    table: Array.from({ length: last + 1 }, (_, state) =>
      Int32Array.from(PLAIN_CUTS, (cut) => (isSurrogate(cut) ? -1 : step(state))),
    ),
    accepts: Array.from({ length: last + 1 }, (_, state) => state >= min),
  }
}

export const ANY_TEXT: CharacterAutomaton = {
  cuts: PLAIN_CUTS,
  table: [Int32Array.from(PLAIN_CUTS, (cut) => (isSurrogate(cut) ? -1 : 0))],
  accepts: [true],
}

export const NO_TEXT: CharacterAutomaton = { ...ANY_TEXT, accepts: [false] }

/** All texts except these. */
export function anyExcept(texts: readonly string[], budget: Budget): CharacterAutomaton {
  const points = texts.map((text) => Array.from(text, (character) => character.codePointAt(0) ?? 0))
  const cuts = cutsOf(points.flat().flatMap((point) => [point, point + 1]))
  budget.spend(points.flat().length * cuts.length, 'additionalProperties')
  // State 0 is the root of the trie of texts; state 1 is reached outside of the trie.
  const table: Int32Array[] = []
  const accepts: boolean[] = []
  const addState = (): number => table.push(Int32Array.from(cuts, (cut) => (isSurrogate(cut) ? -1 : 1))) - 1
  addState()
  addState()
  for (const text of points) {
    let at = 0
    for (const point of text) {
      const c = classOf({ cuts }, point)
      if (table[at]![c] === 1) table[at]![c] = addState()
      at = table[at]![c]!
      if (at < 0) break
    }
    if (at >= 0) accepts[at] = false
  }
  return { cuts, table, accepts: table.map((_, state) => accepts[state] ?? true) }
}
