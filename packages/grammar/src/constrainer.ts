/** Compiles the constraints of one model, and caches them and the token masks of their states. */
import { InstarError } from '@instar/events/errors'
import { keyOf, machineOf, type Constraint } from './constraint.ts'
import type { Machine, State } from './machine.ts'
import { TokenTree, type Spelling } from './tokens.ts'

/** Limits of the cache: constraints, and bytes of token masks over all of them. */
const MAX_MACHINES = 16
const MAX_BYTES = 64 * 1024 * 1024

export class Constrainer {
  private readonly tokenizer: Spelling
  private readonly vocabulary: number
  private readonly endOfTurn: readonly number[]
  private tree: TokenTree | null = null
  /** Least recently used first. */
  private readonly machines = new Map<string, CompiledConstraint>()

  constructor(tokenizer: Spelling, vocabulary: number, endOfTurn: readonly number[]) {
    this.tokenizer = tokenizer
    this.vocabulary = vocabulary
    this.endOfTurn = endOfTurn
  }

  begin(constraint: Constraint): ConstraintCursor {
    return new ConstraintCursor(this.compile(constraint))
  }

  /** Compiles a constraint, or takes it from the cache. Throws `bad_request` if it is not supported. */
  compile(constraint: Constraint): CompiledConstraint {
    const key = keyOf(constraint)
    this.tree ??= new TokenTree(this.tokenizer, this.vocabulary, this.endOfTurn)
    if (!this.tree.spellsAll)
      throw new InstarError(
        'bad_request',
        'The tokenizer of this model has no token for each byte, so that what an answer must be cannot be asked of it.',
        { field: constraint.json?.field ?? 'tool_choice' },
      )
    const kept = this.machines.get(key)
    const followed = kept ?? new CompiledConstraint(this.tree, machineOf(constraint, this.tree.symbols))
    this.machines.delete(key)
    this.machines.set(key, followed)
    for (const oldest of this.machines.keys()) {
      if (this.machines.size <= MAX_MACHINES) break
      this.machines.delete(oldest)
    }
    if (!kept) for (const one of this.machines.values()) one.keepWithin(MAX_BYTES / this.machines.size)
    return followed
  }
}

/** The machine of a constraint with the token masks of its states. Freed when it is neither cached nor in use. */
class CompiledConstraint {
  readonly tree: TokenTree
  readonly machine: Machine
  /** Least recently used first. */
  private readonly masks = new Map<State, Uint32Array>()
  private room = 0

  constructor(tree: TokenTree, machine: Machine) {
    this.tree = tree
    this.machine = machine
  }

  /** One bit for each token that may come next. */
  allowed(state: State): Uint32Array {
    const mask = this.masks.get(state) ?? this.tree.allowed(this.machine, state)
    this.masks.delete(state)
    this.masks.set(state, mask)
    this.shrink(mask.byteLength)
    return mask
  }

  /** Sets the limit for its token masks, in bytes. */
  keepWithin(room: number): void {
    this.room = room
    this.shrink(((this.tree.vocabulary + 31) >> 5) * Uint32Array.BYTES_PER_ELEMENT)
  }

  private shrink(bytes: number): void {
    for (const oldest of this.masks.keys()) {
      if (this.masks.size * bytes <= this.room) break
      this.masks.delete(oldest)
    }
  }
}

/** The state of one answer under a constraint. */
export class ConstraintCursor {
  private readonly followed: CompiledConstraint
  private state: State

  constructor(followed: CompiledConstraint) {
    this.followed = followed
    this.state = followed.machine.start
  }

  /** The logits, with -∞ for tokens that may not come next. */
  masked(logits_V: Float32Array): Float32Array {
    const mask = this.followed.allowed(this.state)
    const out = new Float32Array(logits_V.length).fill(-Infinity)
    for (let word = 0; word < mask.length; word++) {
      for (let bits = mask[word]!; bits !== 0; bits &= bits - 1) {
        const id = word * 32 + 31 - Math.clz32(bits & -bits)
        out[id] = logits_V[id]!
      }
    }
    return out
  }

  /** Moves on by a sampled token. */
  push(id: number): void {
    const next = this.followed.tree.follow(this.followed.machine, this.state, id)
    if (!next) throw new InstarError('internal', 'A token was drawn that its constraint does not allow.')
    this.state = next
  }
}
