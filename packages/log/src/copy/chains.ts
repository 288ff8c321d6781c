/**
 * The records of each key as a chain of hashes: equal for two logs exactly when each key has the same records,
 * with the same times, in the same order, wherever the keys stand. About 150 bytes of memory for a key.
 */
import { createHash } from 'node:crypto'
import type { LogRecord } from '../port.ts'

const STATE = 32

export class Chains {
  readonly #slots = new Map<string, number>()
  #states = Buffer.alloc(64 * STATE)
  #counts = new Uint32Array(64)
  records = 0
  bytes = 0

  add({ key, schema, timestamp, payload }: LogRecord): void {
    const slot = this.#slots.get(key) ?? this.#open(key)
    const state = this.#states.subarray(slot * STATE, (slot + 1) * STATE)
    state.set(createHash('sha256').update(state).update(`${timestamp}\n${schema}\n`).update(payload).digest())
    this.#counts[slot]!++
    this.records++
    this.bytes += payload.length
  }

  keys(): IterableIterator<string> {
    return this.#slots.keys()
  }

  /** How many records the key has. */
  count(key: string): number {
    const slot = this.#slots.get(key)
    return slot === undefined ? 0 : this.#counts[slot]!
  }

  sameKey(key: string, other: Chains): boolean {
    return this.#state(key).equals(other.#state(key))
  }

  /** Hex; over the keys in the order of their text. */
  digest(): string {
    const hash = createHash('sha256')
    for (const key of [...this.#slots.keys()].toSorted()) hash.update(`${key}\0`).update(this.#state(key))
    return hash.digest('hex')
  }

  #state(key: string): Buffer {
    const slot = this.#slots.get(key)
    return slot === undefined ? Buffer.alloc(STATE) : this.#states.subarray(slot * STATE, (slot + 1) * STATE)
  }

  #open(key: string): number {
    const slot = this.#slots.size
    this.#slots.set(key, slot)
    if (slot === this.#counts.length) {
      this.#states = Buffer.concat([this.#states, Buffer.alloc(this.#states.length)])
      const counts = new Uint32Array(2 * slot)
      counts.set(this.#counts)
      this.#counts = counts
    }
    return slot
  }
}
