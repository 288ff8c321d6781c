/**
 * The header `instar.schema` of every record that we write: `TurnCaptured.v2 0123456789abcdef`, the schema's name and
 * the fingerprint of its text. It is part of the record, so that what a record means needs no registry. Records of
 * older builds have none: theirs is told by the id in front of the value.
 */
import type { Fetchable } from './client.ts'
import type { Header } from './record-batch.ts'
import { fingerprintOf } from './schema-names.ts'

export const SCHEMA_HEADER = 'instar.schema'

type NamedSchema = { schema: string; fingerprint: string }

const KEY = Buffer.from(SCHEMA_HEADER, 'utf8')

export const schemaHeader = (schema: string, avro: string): readonly Header[] => [
  [KEY, Buffer.from(`${schema} ${fingerprintOf(avro)}`, 'utf8')],
]

/** Undefined without the header. A malformed header makes the record unreadable. */
export const headerOf = ({ headers }: Fetchable): string | undefined => {
  const value = headers?.[SCHEMA_HEADER]
  if (value === undefined) return undefined
  return Buffer.isBuffer(value) ? value.toString('utf8') : ''
}

export const namedBy = (header: string): NamedSchema | null => {
  const [, schema, fingerprint] = /^([A-Za-z_][\w.]*\.v[1-9]\d*) ([0-9a-f]{16})$/.exec(header) ?? []
  return schema && fingerprint ? { schema, fingerprint } : null
}
