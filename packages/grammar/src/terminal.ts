/**
 * An automaton over symbols. A symbol below 256 is a byte; a larger one is an added token of the tokenizer, which is
 * one symbol whatever its text. From every state an accepting state must be reachable.
 */
export interface Terminal {
  readonly start: number
  /** The next state, or -1. */
  next(state: number, symbol: number): number
  accepts(state: number): boolean
  /** A superset of the symbols with a transition; absent: any symbol. */
  symbols?(state: number): Iterable<number>
}

const utf8 = new TextEncoder()

/** An automaton whose states are values, identified by a key and numbered when they are reached. */
export class KeyedAutomaton<S> implements Terminal {
  readonly start: number
  private readonly states: S[] = []
  private readonly ids = new Map<string, number>()
  private readonly keyOf: (state: S) => string
  private readonly step: (state: S, symbol: number) => S | null
  private readonly final: (state: S) => boolean

  constructor(
    start: S,
    keyOf: (state: S) => string,
    step: (state: S, symbol: number) => S | null,
    final: (state: S) => boolean,
  ) {
    this.keyOf = keyOf
    this.step = step
    this.final = final
    this.start = this.id(start)
  }

  next(state: number, symbol: number): number {
    const from = this.states[state]
    const to = from === undefined ? null : this.step(from, symbol)
    return to === null ? -1 : this.id(to)
  }

  accepts(state: number): boolean {
    const at = this.states[state]
    return at !== undefined && this.final(at)
  }

  private id(state: S): number {
    const key = this.keyOf(state)
    const existing = this.ids.get(key)
    if (existing !== undefined) return existing
    const id = this.states.length
    this.states.push(state)
    this.ids.set(key, id)
    return id
  }
}

/** A trie of words, each a sequence of symbols. */
class Words implements Terminal {
  readonly start = 0
  private readonly edges: Map<number, number>[] = [new Map()]
  private readonly accepting = new Set<number>()

  constructor(list: readonly (readonly number[])[]) {
    for (const word of list) {
      let at = 0
      for (const symbol of word) {
        let to = this.edges[at]?.get(symbol)
        if (to === undefined) {
          to = this.edges.length
          this.edges.push(new Map())
          this.edges[at]?.set(symbol, to)
        }
        at = to
      }
      this.accepting.add(at)
    }
  }

  next(state: number, symbol: number): number {
    return this.edges[state]?.get(symbol) ?? -1
  }

  accepts(state: number): boolean {
    return this.accepting.has(state)
  }

  symbols(state: number): Iterable<number> {
    return this.edges[state]?.keys() ?? []
  }
}

export const words = (list: readonly string[]): Terminal => new Words(list.map((word) => [...utf8.encode(word)]))

/** A tag: its added token if there is one, else its bytes. `symbols`: the added tokens by text. */
export const tag = (text: string, symbols: ReadonlyMap<string, number>): Terminal =>
  new Words([symbols.has(text) ? [symbols.get(text) ?? -1] : [...utf8.encode(text)]])

/** Any input up to and including the first `text`, as bytes or as an added token. */
export function upTo(text: string, symbols: ReadonlyMap<string, number>): Terminal {
  const bytes = utf8.encode(text)
  const symbol = symbols.get(text)
  /** The length of the longest prefix of `text` that is a suffix of the input (Knuth, Morris and Pratt). */
  const matched = (count: number, byte: number): number => {
    const tail = [...bytes.subarray(0, count), byte]
    for (let length = tail.length; length > 0; length--)
      if (tail.slice(-length).every((one, i) => one === bytes[i])) return length
    return 0
  }
  const step = (count: number, next: number): number | null => {
    if (count === bytes.length) return null
    if (next === symbol) return bytes.length
    return next > 255 ? 0 : matched(count, next)
  }
  return new KeyedAutomaton(0, String, step, (count) => count === bytes.length)
}

/** Maximum number of spaces after a line break. */
const MAX_INDENT = 16

/**
 * White space between tokens of JSON: none, one space, or a line break and up to `MAX_INDENT` spaces. State 1: after
 * the single space; 2 + n: after a line break and n spaces.
 */
export const BLANKS: Terminal = {
  start: 0,
  next(state, symbol) {
    if (symbol === 0x0a) return state === 0 ? 2 : -1
    if (symbol !== 0x20 || state === 1) return -1
    return state === 0 ? 1 : state < 2 + MAX_INDENT ? state + 1 : -1
  },
  accepts: () => true,
  symbols: () => WHITE_SPACE,
}

const WHITE_SPACE = [0x0a, 0x20]

/** At most one space. */
export const SPACE: Terminal = {
  start: 0,
  next: (state, symbol) => (state === 0 && symbol === 0x20 ? 1 : -1),
  accepts: () => true,
  symbols: () => WHITE_SPACE,
}
