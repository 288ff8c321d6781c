/** The response format that a request body asks for. */
import type { Constraint } from '@instar/engine/port'
import { isFields, wrong } from './fields.ts'

/**
 * `format`: null where the body says nothing. `schemaIn`: the field of the format that holds the schema's own fields.
 */
export type AnswerFormat = { format: unknown; field: string; schemaIn: string | null }

export const ANY_OBJECT = { type: 'object' }

/** The schema of an answer that must be JSON; null: it may be any text. Throws `bad_request` where it is no format. */
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
