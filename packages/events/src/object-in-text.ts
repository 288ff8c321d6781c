import type { JsonObject } from './json.ts'

/** Tries to read an object, and characters in all of them: nonsense full of braces must not hold the thread. */
const MOST_TRIES = 256
const MOST_PARSED = 512 * 1024
/** Characters at the end of a text that are read. */
const MOST_READ = 64 * 1024

/** The last JSON object with the field in a text, around which a model may have thought aloud; null: none is found. */
export const lastObjectIn = (text: string, field: string): JsonObject | null => {
  const read = text.slice(-MOST_READ)
  let tries = 0
  let parsed = 0
  for (let end = read.lastIndexOf('}'); end >= 0; end = read.lastIndexOf('}', end - 1)) {
    for (
      let start = read.lastIndexOf('{', end);
      start >= 0;
      start = start === 0 ? -1 : read.lastIndexOf('{', start - 1)
    ) {
      parsed += end + 1 - start
      if (++tries > MOST_TRIES || parsed > MOST_PARSED) return null
      try {
        const value: unknown = JSON.parse(read.slice(start, end + 1))
        if (typeof value === 'object' && value !== null && Object.hasOwn(value, field)) return value as JsonObject
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error
      }
    }
    if (end === 0) break
  }
  return null
}
