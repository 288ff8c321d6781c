/**
 * sha256 of a JSON value: the same whatever the order of an object's keys and the blanks between them. Nothing is
 * serialised: texts go into the hash as they are, with their length before them, so that no two values run together.
 */
import { createHash, hash, type Hash } from 'node:crypto'

/** Small parts are gathered to so many characters before they are hashed. */
const GATHERED = 4096

export class ValueDigest {
  /** Of what was gathered before; null while everything is held. */
  #hash: Hash | null
  #held: string

  constructor(hash: Hash | null = null, held = '') {
    this.#hash = hash
    this.#held = held
  }

  /** One more value behind those before. */
  add(value: unknown): this {
    if (typeof value === 'string') this.#text(value)
    else if (Array.isArray(value)) {
      this.#put('[')
      for (const one of value as unknown[]) this.add(one)
      this.#put(']')
    } else if (typeof value === 'object' && value !== null) {
      this.#put('{')
      for (const key of Object.keys(value).sort()) {
        const field = (value as Record<string, unknown>)[key]
        if (field === undefined) continue
        this.#text(key)
        this.add(field)
      }
      this.#put('}')
    } else this.#put(`${String(value)};`)
    return this
  }

  /** What has been added so far, to go on from in another way. */
  fork(): ValueDigest {
    return new ValueDigest(this.#hash?.copy() ?? null, this.#held)
  }

  /** In hex; nothing can be added afterwards. */
  end(): string {
    return this.#hash === null ? hash('sha256', this.#held, 'hex') : this.#hash.update(this.#held).digest('hex')
  }

  #text(text: string): void {
    this.#put(`"${text.length}:`)
    if (text.length < GATHERED) this.#put(text)
    else {
      this.#flush().update(text)
    }
  }

  #put(text: string): void {
    this.#held += text
    if (this.#held.length >= GATHERED) this.#flush()
  }

  #flush(): Hash {
    const hash = (this.#hash ??= createHash('sha256'))
    hash.update(this.#held)
    this.#held = ''
    return hash
  }
}
