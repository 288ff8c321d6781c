/** The memory of a response that is being read, and what it takes to parse it. */
import { jsonBytes, type JsonLimits } from '@instar/events/json-size'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { Hold } from '../port.ts'
import { EngineFault } from './fault.ts'

/** What is smaller is neither counted nor looked through: pieces of answers are, each some hundred bytes. */
const SMALL_BYTES = 64 * 1024

/** Counts what one part of a response takes now. */
export class Held {
  private readonly hold: Hold | undefined
  private bytes = 0

  constructor(hold: Hold | undefined) {
    this.hold = hold
  }

  /** Throws as `hold`, and then counts what it did before. */
  set(bytes: number): void {
    const counted = bytes > SMALL_BYTES ? bytes : 0
    if (counted === this.bytes) return
    this.hold?.(counted - this.bytes)
    this.bytes = counted
  }
}

/**
 * The value of a JSON text, which `held` counts from before it is parsed; null: it is no JSON. Throws EngineFault for one
 * whose parsing would hold up others, and as `held`.
 */
export const parsedJson = (json: string | Buffer, limits: JsonLimits, held: Held): { value: unknown } | null => {
  if (json.length > SMALL_BYTES) {
    const bytes = jsonBytes(typeof json === 'string' ? Buffer.from(json) : json, limits)
    if (bytes === null) throw new EngineFault('response', 'the response has more objects, lists or fields than any')
    held.set(bytes)
  }
  try {
    return { value: JSON.parse(typeof json === 'string' ? json : json.toString('utf8')) as unknown }
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** Throws EngineFault for what is no JSON object, and as `parsedJson`. */
export const eventOf = (json: string | Buffer, limits: JsonLimits, held: Held): JsonObject => {
  const parsed = parsedJson(json, limits, held)
  if (!parsed) throw new EngineFault('response', 'an event is not valid JSON')
  if (!isJsonObject(parsed.value)) throw new EngineFault('response', 'an event is not a JSON object')
  return parsed.value
}
