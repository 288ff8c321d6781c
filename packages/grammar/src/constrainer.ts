/** Compiles the constraints of one model and caches them with the token masks of their states. */
import { InstarError } from '@instar/events/errors'
import { keyOf, machineOf, type Constraint } from './constraint.ts'
import type { Machine, State } from './machine.ts'
import { TokenTree, type TokenBytes } from './tokens.ts'

/** Limits of the cache: number of constraints, and bytes of all token masks. */
const MAX_MACHINES = 16
const MAX_BYTES = 64 * 1024 * 1024

export class Constrainer {
  private readonly tokenizer: TokenBytes
  private readonly vocabulary: number
  private readonly endOfTurn: readonly number[]
  private tree: TokenTree | null = null
  /** Least recently used first. */
  private readonly machines = new Map<string, CompiledConstraint>()

  constructor(tokenizer: TokenBytes, vocabulary: number, endOfTurn: readonly number[]) {
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
    if (!this.tree.coversAllBytes)
      throw new InstarError(
        'bad_request',
        'Constrained answers are not supported by this model: its tokenizer has no token for each byte.',
        { field: constraint.json?.field ?? 'tool_choice' },
      )
    const cached = this.machines.get(key)
    const compiled = cached ?? new CompiledConstraint(this.tree, machineOf(constraint, this.tree.symbols))
    this.machines.delete(key)
    this.machines.set(key, compiled)
    for (const oldest of this.machines.keys()) {
      if (this.machines.size <= MAX_MACHINES) break
      this.machines.delete(oldest)
    }
    if (!cached) for (const one of this.machines.values()) one.setMaxBytes(MAX_BYTES / this.machines.size)
    return compiled
  }
}

/** The machine of a constraint with the token masks of its states. Freed when it is neither cached nor in use. */
class CompiledConstraint {
  readonly tree: TokenTree
  readonly machine: Machine
  /** Least recently used first. */
  private readonly masks = new Map<State, Uint32Array>()
  private maxBytes = 0

  constructor(tree: TokenTree, machine: Machine) {
    this.tree = tree
    this.machine = machine
  }

  /** The mask of the allowed next tokens: bit i of word i >> 5. */
  allowed(state: State): Uint32Array {
    const mask = this.masks.get(state) ?? this.tree.allowed(this.machine, state)
    this.masks.delete(state)
    this.masks.set(state, mask)
    this.shrink(mask.byteLength)
    return mask
  }

  /** Sets the limit for its token masks, in bytes. */
  setMaxBytes(maxBytes: number): void {
    this.maxBytes = maxBytes
    this.shrink(((this.tree.vocabulary + 31) >> 5) * Uint32Array.BYTES_PER_ELEMENT)
  }

  private shrink(bytes: number): void {
    for (const oldest of this.masks.keys()) {
      if (this.masks.size * bytes <= this.maxBytes) break
      this.masks.delete(oldest)
    }
  }
}

/** The state of one answer under a constraint. */
export class ConstraintCursor {
  private readonly compiled: CompiledConstraint
  private state: State

  constructor(compiled: CompiledConstraint) {
    this.compiled = compiled
    this.state = compiled.machine.start
  }

  /** A copy of the logits with -∞ for tokens that are not allowed. */
  masked(logits_V: Float32Array): Float32Array {
    const mask = this.compiled.allowed(this.state)
    const out = new Float32Array(logits_V.length).fill(-Infinity)
    for (let word = 0; word < mask.length; word++) {
      for (let bits = mask[word]!; bits !== 0; bits &= bits - 1) {
        const id = word * 32 + 31 - Math.clz32(bits & -bits)
        out[id] = logits_V[id]!
      }
    }
    return out
  }

  /** Advances by a sampled token. */
  push(id: number): void {
    const next = this.compiled.tree.follow(this.compiled.machine, this.state, id)
    if (!next) throw new InstarError('internal', `Token ${id} was sampled, which the constraint does not allow.`)
    this.state = next
  }
}
