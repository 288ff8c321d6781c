/**
 * What a JSON text would take to parse, counted in its bytes. V8 takes microseconds for each field of an object of many names,
 * and up to 100 bytes for an empty list.
 */
import { isAscii } from 'node:buffer'

const [QUOTE, BACKSLASH, COMMA, COLON, LIST, OBJECT, LIST_END, OBJECT_END] = [...'"\\,:[{]}'].map((sign) =>
  sign.charCodeAt(0),
) as [number, number, number, number, number, number, number, number]

/** `containers`: objects and lists. `widest`: the most fields of one object. */
export type JsonLimits = Readonly<Record<'containers' | 'values' | 'fields' | 'widest', number>>
/** `texts`: bytes of strings. */
type JsonCounts = Record<keyof JsonLimits | 'texts', number>

/** Counts in the bytes. Stops at the first limit that is exceeded. */
const countsOf = (body: Uint8Array, limits: JsonLimits): JsonCounts => {
  const counts = { containers: 0, values: 0, fields: 0, widest: 0, texts: 0 }
  /** Fields so far of the objects and lists that are open, without the innermost one. */
  const outer: number[] = []
  let own = 0
  for (let at = 0; at < body.length && !isTooMany(counts, limits); at += 1) {
    const sign = body[at]
    if (sign === QUOTE) {
      const end = endOfText(body, at)
      counts.texts += end - at
      at = end
    } else if (sign === COMMA) counts.values += 1
    else if (sign === COLON) {
      counts.fields += 1
      own += 1
      if (own > counts.widest) counts.widest = own
    } else if (sign === LIST || sign === OBJECT) {
      counts.containers += 1
      outer.push(own)
      own = 0
    } else if (sign === LIST_END || sign === OBJECT_END) own = outer.pop() ?? 0
  }
  return counts
}

const isTooMany = (counts: JsonCounts, limits: JsonLimits): boolean =>
  counts.containers > limits.containers ||
  counts.values > limits.values ||
  counts.fields > limits.fields ||
  counts.widest > limits.widest

/** The most bytes that V8 uses for an object or list, a field of an object, and another value, without strings. */
const CONTAINER_BYTES = 100
const FIELD_BYTES = 80
const VALUE_BYTES = 32

/** An upper estimate of the bytes of memory that the value takes besides its text; null: it exceeds a limit. */
export const jsonBytes = (body: Uint8Array, limits: JsonLimits): number | null => {
  const counts = countsOf(body, limits)
  if (isTooMany(counts, limits)) return null
  const { containers, values, fields, texts } = counts
  return CONTAINER_BYTES * containers + FIELD_BYTES * fields + VALUE_BYTES * values + texts * (isNarrow(body) ? 1 : 2)
}

/** Whether parsing all of the texts would exceed the limits together; of `widest`, one of them. */
export const exceedTogether = (texts: Iterable<string>, limits: JsonLimits): boolean => {
  const left = { ...limits }
  for (const text of texts) {
    const counts = countsOf(Buffer.from(text), left)
    if (isTooMany(counts, left)) return true
    left.containers -= counts.containers
    left.values -= counts.values
    left.fields -= counts.fields
  }
  return false
}

/** Whether V8 stores every string of the body with one byte per character; otherwise it uses two. */
const isNarrow = (body: Uint8Array): boolean =>
  isAscii(body) && !Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes('\\u')

/** The offset of the quote that closes the string at `from`; the body's length if it is not closed. */
const endOfText = (body: Uint8Array, from: number): number => {
  for (let at = body.indexOf(QUOTE, from + 1); at >= 0; at = body.indexOf(QUOTE, at + 1)) {
    let before = at
    while (body[before - 1] === BACKSLASH) before -= 1
    if ((at - before) % 2 === 0) return at
  }
  return body.length
}
