/**
 * sha256 of a JSON value, independent of the order of object keys and of formatting. The value is not serialised:
 * strings are hashed with their length in front, so that different values have different inputs.
 */
import { createHash, hash, type Hash } from 'node:crypto'

/** Small parts are buffered up to this many characters before they are hashed. */
const BUFFER_SIZE = 4096

export class ValueDigest {
  /** Hash of the input before the buffer; null before the first flush. */
  #hash: Hash | null
  #buffer: string

  constructor(hash: Hash | null = null, buffer = '') {
    this.#hash = hash
    this.#buffer = buffer
  }

  /** Appends a value to the sequence of values. */
  add(value: unknown): this {
    if (typeof value === 'string') this.#addString(value)
    else if (Array.isArray(value)) {
      this.#append('[')
      for (const item of value as unknown[]) this.add(item)
      this.#append(']')
    } else if (typeof value === 'object' && value !== null) {
      this.#append('{')
      for (const key of Object.keys(value).sort()) {
        const field = (value as Record<string, unknown>)[key]
        if (field === undefined) continue
        this.#addString(key)
        this.add(field)
      }
      this.#append('}')
    } else this.#append(`${String(value)};`)
    return this
  }

  /** A copy with the values added so far. */
  fork(): ValueDigest {
    return new ValueDigest(this.#hash?.copy() ?? null, this.#buffer)
  }

  /** The digest in hex. No value can be added afterwards. */
  end(): string {
    return this.#hash === null ? hash('sha256', this.#buffer, 'hex') : this.#hash.update(this.#buffer).digest('hex')
  }

  #addString(text: string): void {
    this.#append(`"${text.length}:`)
    if (text.length < BUFFER_SIZE) this.#append(text)
    else {
      this.#flush().update(text)
    }
  }

  #append(text: string): void {
    this.#buffer += text
    if (this.#buffer.length >= BUFFER_SIZE) this.#flush()
  }

  #flush(): Hash {
    const hash = (this.#hash ??= createHash('sha256'))
    hash.update(this.#buffer)
    this.#buffer = ''
    return hash
  }
}
