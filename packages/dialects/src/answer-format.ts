/** The response format of a request body: plain text, any JSON object, or JSON of a schema. */
import type { Constraint } from '@instar/engine/port'
import { isFields, wrong } from './fields.ts'

/**
 * `format`: the value of the body's format field, null if the body has none. `field`: the field's path, for errors.
 * `schemaIn`: the field of `format` that contains `schema`; null: `format` itself contains it.
 */
export type AnswerFormat = { format: unknown; field: string; schemaIn: string | null }

export const ANY_OBJECT = { type: 'object' }

/** The JSON Schema that the answer must match; null: any text. Throws `bad_request` if the format is invalid. */
export const jsonFormat = ({ format, field, schemaIn }: AnswerFormat): Constraint['json'] => {
  if (format === undefined || format === null) return null
  const type = isFields(format) ? format['type'] : null
  if (!isFields(format) || typeof type !== 'string') throw wrong(field, 'an object with a type')
  if (type === 'text') return null
  if (type === 'json_object') return { field, schema: ANY_OBJECT }
  if (type !== 'json_schema') throw wrong(`${field}.type`, 'text, json_object or json_schema')
  const holder = schemaIn === null ? format : format[schemaIn]
  const schema = isFields(holder) ? holder['schema'] : null
  if (!isFields(schema)) throw wrong(`${field}.${schemaIn === null ? '' : `${schemaIn}.`}schema`, 'a JSON Schema')
  return { field, schema }
}
