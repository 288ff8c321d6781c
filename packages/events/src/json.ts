export type JsonObject = Readonly<Record<string, unknown>>

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** How the text of an object begins: an exception of JSON.parse takes longer than reading a request. */
const OBJECT = /^[ \t\n\r]*\{/

/** Parses a JSON object; null for text that is not JSON or another value. */
export const parseJsonObject = (json: string): JsonObject | null => {
  if (!OBJECT.test(json)) return null
  try {
    const value: unknown = JSON.parse(json)
    return isJsonObject(value) ? value : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
