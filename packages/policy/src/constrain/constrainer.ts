/** Constraints of one model: each is compiled once, and what a state allows is found once, as long as there is room. */
import { InstarError } from '@instar/events/errors'
import type { Constraint } from '../port.ts'
import { keyOf, machineOf } from './constraint.ts'
import type { Machine, State } from './machine.ts'
import { TokenTree, type Spelling } from './tokens.ts'

/** Constraints that are kept, and bytes of what their states allow. */
const MAX_MACHINES = 16
const MAX_BYTES = 64 * 1024 * 1024

export class Constrainer {
  private readonly tokenizer: Spelling
  private readonly vocabulary: number
  private readonly endOfTurn: readonly number[]
  private tree: TokenTree | null = null
  private readonly machines = new Map<string, Machine>()
  private readonly masks = new Map<State, Uint32Array>()

  constructor(tokenizer: Spelling, vocabulary: number, endOfTurn: readonly number[]) {
    this.tokenizer = tokenizer
    this.vocabulary = vocabulary
    this.endOfTurn = endOfTurn
  }

  /** Throws `bad_request` where the constraint cannot be followed. */
  begin(constraint: Constraint): Following {
    const key = keyOf(constraint)
    this.tree ??= new TokenTree(this.tokenizer, this.vocabulary, this.endOfTurn)
    const machine = this.machines.get(key) ?? machineOf(constraint, this.tree.symbols)
    this.machines.delete(key)
    this.machines.set(key, machine)
    for (const oldest of this.machines.keys()) {
      if (this.machines.size <= MAX_MACHINES) break
      this.machines.delete(oldest)
    }
    return new Following(this, this.tree, machine)
  }

  /** One bit for each token that may come next. */
  allowed(tree: TokenTree, machine: Machine, state: State): Uint32Array {
    const known = this.masks.get(state)
    if (known) {
      // The longest unused goes first.
      this.masks.delete(state)
      this.masks.set(state, known)
      return known
    }
    const mask = tree.allowed(machine, state)
    this.masks.set(state, mask)
    for (const oldest of this.masks.keys()) {
      if (this.masks.size * mask.byteLength <= MAX_BYTES) break
      this.masks.delete(oldest)
    }
    return mask
  }
}

/** One answer under its constraint. */
export class Following {
  private readonly constrainer: Constrainer
  private readonly tree: TokenTree
  private readonly machine: Machine
  private state: State

  constructor(constrainer: Constrainer, tree: TokenTree, machine: Machine) {
    this.constrainer = constrainer
    this.tree = tree
    this.machine = machine
    this.state = machine.start
  }

  /** The logits with -∞ for what may not come next. */
  masked(logits_V: Float32Array): Float32Array {
    const mask = this.constrainer.allowed(this.tree, this.machine, this.state)
    const out = new Float32Array(logits_V.length).fill(-Infinity)
    for (let word = 0; word < mask.length; word++) {
      for (let bits = mask[word]!; bits !== 0; bits &= bits - 1) {
        const id = word * 32 + 31 - Math.clz32(bits & -bits)
        out[id] = logits_V[id]!
      }
    }
    return out
  }

  /** `id` was drawn. */
  push(id: number): void {
    const next = this.tree.follow(this.machine, this.state, id)
    if (!next) throw new InstarError('internal', 'A token was drawn that its constraint does not allow.')
    this.state = next
  }
}
