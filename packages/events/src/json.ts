export type JsonObject = Readonly<Record<string, unknown>>

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The object that a text is the JSON of; null for any other text. */
export const parseJsonObject = (json: string): JsonObject | null => {
  try {
    const value: unknown = JSON.parse(json)
    return isJsonObject(value) ? value : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
