/** Automata over Unicode characters without surrogates: texts and patterns before they are encoded as JSON. */
import { tooLarge, type Budget } from './refusal.ts'

/**
 * Deterministic. Class c has the characters from `cuts[c]` up to, not including, `cuts[c + 1]`; `table[state][class]` is
 * the next state, -1 for none. State 0 is the start.
 */
export type Characters = { cuts: readonly number[]; table: readonly Int32Array[]; accepts: readonly boolean[] }

export const END_OF_UNICODE = 0x110000

export function classOf({ cuts }: Pick<Characters, 'cuts'>, character: number): number {
  let low = 0
  let high = cuts.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((cuts[middle] ?? 0) <= character) low = middle
    else high = middle - 1
  }
  return low
}

/** The first surrogate and the character after the last are cuts, so that surrogates have classes of their own. */
export const cutsOf = (borders: Iterable<number>): number[] =>
  [...new Set([0, 0xd800, 0xe000, ...borders])].filter((at) => at < END_OF_UNICODE).sort((a, b) => a - b)

export const isSurrogates = (cut: number): boolean => cut >= 0xd800 && cut < 0xe000

/** Removes states from which no text is accepted; null if none is left. */
export function trimmed({ cuts, table, accepts }: Characters): Characters | null {
  const into: number[][] = table.map(() => [])
  for (const [from, row] of table.entries()) for (const to of new Set(row)) if (to >= 0) into[to]?.push(from)
  const live = new Set<number>()
  const open = accepts.flatMap((accepting, state) => (accepting ? [state] : []))
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    if (live.has(state)) continue
    live.add(state)
    open.push(...(into[state] ?? []))
  }
  if (!live.has(0)) return null
  return { cuts, accepts, table: table.map((row) => row.map((to) => (live.has(to) ? to : -1))) }
}

/** The intersection. */
export function both(a: Characters, b: Characters, budget: Budget): Characters {
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

const PLAIN = cutsOf([])

/** The largest length that is supported. */
const LONGEST = 8192

/** Texts of `min` to `max` characters; null if there are none. */
export function ofLength(min: number, max: number, budget: Budget): Characters | null {
  if (min > LONGEST) throw tooLarge('minLength')
  if (min > max) return null
  const last = max === Infinity ? min : Math.min(max, LONGEST)
  budget.spend(8 * last, 'maxLength')
  const step = (state: number): number => (state < last ? state + 1 : max === Infinity ? last : -1)
  return {
    cuts: PLAIN,
    table: Array.from({ length: last + 1 }, (_, state) =>
      Int32Array.from(PLAIN, (cut) => (isSurrogates(cut) ? -1 : step(state))),
    ),
    accepts: Array.from({ length: last + 1 }, (_, state) => state >= min),
  }
}

export const ANY_TEXT: Characters = {
  cuts: PLAIN,
  table: [Int32Array.from(PLAIN, (cut) => (isSurrogates(cut) ? -1 : 0))],
  accepts: [true],
}

export const NO_TEXT: Characters = { ...ANY_TEXT, accepts: [false] }

/** Any text except these. */
export function except(texts: readonly string[], budget: Budget): Characters {
  const points = texts.map((text) => Array.from(text, (character) => character.codePointAt(0) ?? 0))
  const cuts = cutsOf(points.flat().flatMap((point) => [point, point + 1]))
  budget.spend(points.flat().length * cuts.length, 'additionalProperties')
  // State 0 is the root of the trie of names; state 1 is reached by leaving it.
  const table: Int32Array[] = []
  const accepts: boolean[] = []
  const grow = (): number => table.push(Int32Array.from(cuts, (cut) => (isSurrogates(cut) ? -1 : 1))) - 1
  grow()
  grow()
  for (const text of points) {
    let at = 0
    for (const point of text) {
      const c = classOf({ cuts }, point)
      if (table[at]![c] === 1) table[at]![c] = grow()
      at = table[at]![c]!
      if (at < 0) break
    }
    if (at >= 0) accepts[at] = false
  }
  return { cuts, table, accepts: table.map((_, state) => accepts[state] ?? true) }
}
