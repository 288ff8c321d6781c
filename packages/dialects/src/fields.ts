/**
 * Typed readers of a client's JSON fields. Null counts as absent. Every reader throws `bad_request` with the field's
 * path if the value has another type or is out of range.
 */
import { InstarError } from '@instar/events'
import { isJsonObject, type JsonObject } from '@instar/events/json'

export { isJsonObject as isFields, type JsonObject as Fields } from '@instar/events/json'

export const wrong = (field: string, should: string): InstarError =>
  new InstarError('bad_request', `${field} must be ${should}.`, { field })

export const MAX_STOPS = 16
/** UTF-16 units of a stop string. Engines search each answer for all of them. */
export const MAX_STOP_LENGTH = 4096

/** The stop strings of a list. Throws `bad_request`. `form`: other forms that the field may have. */
export const stopsOf = (value: unknown, field: string, form = ''): string[] => {
  if (
    !Array.isArray(value) ||
    value.length > MAX_STOPS ||
    !value.every((stop): stop is string => typeof stop === 'string' && stop !== '' && stop.length <= MAX_STOP_LENGTH)
  )
    throw wrong(
      field,
      `${form}a list of up to ${MAX_STOPS} texts, none of them empty or longer than ${MAX_STOP_LENGTH} characters`,
    )
  return value
}

export const fieldsOf = (value: unknown, where: string): JsonObject => {
  if (!isJsonObject(value)) throw wrong(where, 'an object')
  return value
}

/** Types of message parts that are images, audio, video or files. */
export const MEDIA = [
  'image',
  'image_url',
  'input_image',
  'image_file',
  'audio',
  'audio_url',
  'input_audio',
  'output_audio',
  'video',
  'video_url',
  'input_video',
  'file',
  'input_file',
  'file_url',
  'document',
] as const

/** The text of a message part; null for media parts, even those with a `text` field. */
export const textIn = (part: unknown): string | null => {
  if (!isJsonObject(part) || MEDIA.some((kind) => kind === part['type'])) return null
  return typeof part['text'] === 'string' ? part['text'] : null
}

export const text = (fields: JsonObject, name: string): string | null => {
  const value = fields[name] ?? null
  if (value !== null && typeof value !== 'string') throw wrong(name, 'a string')
  return value
}

export const flag = (fields: JsonObject, name: string): boolean => {
  const value = fields[name] ?? false
  if (typeof value !== 'boolean') throw wrong(name, 'true or false')
  return value
}

export const number = (fields: JsonObject, name: string, min: number, max: number): number | null => {
  const value = fields[name] ?? null
  if (value === null) return null
  if (typeof value !== 'number' || !(value >= min && value <= max)) throw wrong(name, `a number from ${min} to ${max}`)
  return value
}

export const integer = (fields: JsonObject, name: string, min: number, max: number): number | null => {
  const value = fields[name] ?? null
  if (value === null) return null
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
    throw wrong(
      name,
      `a whole number${max === Number.MAX_SAFE_INTEGER && !(typeof value === 'number' && value > max) ? ` of at least ${min}` : ` from ${min} to ${max}`}`,
    )
  return value
}

/** The first non-null value of several aliases. */
export const first = <T>(...values: readonly (T | null)[]): T | null => values.find((value) => value !== null) ?? null

/** The named fields that are set: not absent, null, false or empty. */
export const ignoredOf = (body: JsonObject, names: readonly string[]): string[] =>
  names.filter((name) => {
    const value = body[name] ?? false
    return value !== false && value !== '' && !(Array.isArray(value) && value.length === 0)
  })

/** `top_p`: above 0 and at most 1; null if absent. */
export const topP = (body: JsonObject): number | null => {
  const value = number(body, 'top_p', 0, 1)
  if (value === 0) throw wrong('top_p', 'above 0 and at most 1')
  return value
}
