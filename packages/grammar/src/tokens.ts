/** The vocabulary as a trie of symbols; computes the tokens that a state of a machine allows. */
import { InstarError } from '@instar/events/errors'
import type { Machine, State } from './machine.ts'

/** The bytes of a tokenizer's tokens. */
export type TokenBytes = {
  readonly added: readonly { id: number; content: string; special: boolean }[]
  bytesOf(id: number): Uint8Array
}

/** Maximum work of a machine (`Machine.work`) for one token mask. */
const MAX_WORK = 3_000_000

/**
 * Nodes in depth-first order: node i has depth `depth[i]` and symbol `symbol[i]`, and its subtree ends before `end[i]`.
 * The tokens of a node are a linked list from `token[i]` through `nextToken` (-1: end).
 */
export class TokenTree {
  readonly symbols: ReadonlyMap<string, number>
  readonly vocabulary: number
  /**
   * Whether every byte of printable UTF-8 is a token, but for the first bytes of characters in planes 4 to 11, of which
   * Unicode has none. Otherwise some states would allow no token.
   */
  readonly coversAllBytes: boolean
  private readonly symbol: Uint16Array
  private readonly depth: Uint16Array
  private readonly end: Int32Array
  private readonly token: Int32Array
  private readonly nextToken: Int32Array
  private readonly symbolsOf: readonly (readonly number[])[]
  private readonly endOfTurn: readonly number[]

  constructor(tokenizer: TokenBytes, vocabulary: number, endOfTurn: readonly number[]) {
    this.vocabulary = vocabulary
    this.endOfTurn = endOfTurn
    const addedTokens = tokenizer.added.filter(
      ({ id, special }) => !special && id < vocabulary && !endOfTurn.includes(id),
    )
    this.symbols = new Map(addedTokens.map(({ content }, i) => [content, 256 + i]))
    const symbolOfAdded = new Map(addedTokens.map(({ id }, i) => [id, 256 + i]))
    this.symbolsOf = Array.from({ length: vocabulary }, (_, id) => {
      const unit = symbolOfAdded.get(id)
      return unit === undefined ? [...tokenizer.bytesOf(id)] : [unit]
    })
    const ids = Array.from(this.symbolsOf.keys())
      .filter((id) => this.symbolsOf[id]!.length > 0 && !endOfTurn.includes(id))
      .sort((a, b) => compare(this.symbolsOf[a]!, this.symbolsOf[b]!))
    const nodes: { symbol: number; depth: number; token: number }[] = []
    this.nextToken = new Int32Array(vocabulary).fill(-1)
    let previous: readonly number[] = []
    for (const id of ids) {
      const word = this.symbolsOf[id]!
      let shared = 0
      while (shared < word.length && shared < previous.length && word[shared] === previous[shared]) shared++
      for (let at = shared; at < word.length; at++) nodes.push({ symbol: word[at]!, depth: at, token: -1 })
      const last = nodes.at(-1)
      if (last) {
        this.nextToken[id] = last.token
        last.token = id
      }
      previous = word
    }
    this.symbol = Uint16Array.from(nodes, (node) => node.symbol)
    this.depth = Uint16Array.from(nodes, (node) => node.depth)
    this.token = Int32Array.from(nodes, (node) => node.token)
    this.end = new Int32Array(nodes.length)
    const open: number[] = []
    for (let i = 0; i <= nodes.length; i++) {
      while (open.length > (nodes[i]?.depth ?? 0)) this.end[open.pop() ?? 0] = i
      open.push(i)
    }
    const single = new Set(this.symbolsOf.flatMap((word) => (word.length === 1 ? word : [])))
    const bytes = Array.from({ length: 0xf5 - 0x20 }, (_, i) => 0x20 + i).filter(
      (byte) => ![0x7f, 0xc0, 0xc1, 0xf1, 0xf2].includes(byte),
    )
    this.coversAllBytes = bytes.every((byte) => single.has(byte))
  }

  /**
   * The mask of allowed tokens: bit i of word i >> 5. Throws `bad_request` if the schema is too ambiguous, or asks for a
   * character that the tokenizer lacks.
   */
  allowed(machine: Machine, start: State): Uint32Array {
    const bits = new Uint32Array((this.vocabulary + 31) >> 5)
    const limit = machine.work + MAX_WORK
    const states: State[] = [start]
    const { symbol, depth, end, token, nextToken } = this
    for (let i = 0; i < symbol.length;) {
      const d = depth[i]!
      const next = machine.step(states[d]!, symbol[i]!)
      if (next === null) {
        i = end[i]!
        continue
      }
      states[d + 1] = next
      for (let id = token[i]!; id >= 0; id = nextToken[id]!) bits[id >> 5]! |= 1 << (id & 31)
      i++
      if (machine.work > limit)
        throw new InstarError(
          'bad_request',
          'The schema is too ambiguous: too many of its alternatives have the same beginning; simplify the schema.',
          { field: 'response_format' },
        )
    }
    if (start.accepts) for (const id of this.endOfTurn) bits[id >> 5]! |= 1 << (id & 31)
    if (bits.every((word) => word === 0))
      throw new InstarError('bad_request', 'The schema asks for a character that the tokenizer of this model lacks.', {
        field: 'response_format',
      })
    return bits
  }

  /** The state after an allowed token. */
  follow(machine: Machine, state: State, id: number): State | null {
    let at: State | null = state
    for (const symbol of this.symbolsOf[id] ?? []) at = at && machine.step(at, symbol)
    return at
  }
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!
  return a.length - b.length
}
