/** Schemas of a newer build: one of ours with one more field, and its records. */
import avro from 'avsc'
import { keyOf, schemaTexts, topicOf, type Event, type RecordName } from '@instar/events'
import type { Append } from '@instar/log'

export type Newer = {
  schema: string
  schemas: Record<string, string>
  encode(event: Event & Record<string, unknown>): Append
}

/** `name`: of our newest version; its successor has one more field. `as`: another name for it. */
export const newer = (name: RecordName, field: string, type: unknown, byDefault: unknown, as?: string): Newer => {
  const texts = schemaTexts()
  const versions = Object.keys(texts).filter((schema) => schema.startsWith(`${name}.v`)).length
  const parsed = JSON.parse(texts[`${name}.v${versions}`]!) as { fields: unknown[] }
  parsed.fields.push({ name: field, type, default: byDefault })
  const schema = as ?? `${name}.v${versions + 1}`
  const codec = avro.Type.forSchema(parsed as unknown as avro.Schema, { wrapUnions: false })
  return {
    schema,
    schemas: { [schema]: JSON.stringify(parsed) },
    encode: (event) => ({
      topic: topicOf(event),
      key: keyOf(event),
      schema,
      payload: codec.toBuffer(event),
      timestamp: event.at,
    }),
  }
}
