/**
 * The record header `instar.schema`: `TurnCaptured.v2 0123456789abcdef`, the schema's name and fingerprint. With it
 * readers need no registry. Records of older builds lack it; their schema is that of the id at the start of the value.
 */
import type { KafkaRecord } from './client.ts'
import type { Header } from './record-batch.ts'
import { fingerprintOf } from './schema-names.ts'

export const SCHEMA_HEADER = 'instar.schema'

type NamedSchema = { schema: string; fingerprint: string }

const KEY = Buffer.from(SCHEMA_HEADER, 'utf8')

export const schemaHeader = (schema: string, avro: string): readonly Header[] => [
  [KEY, Buffer.from(`${schema} ${fingerprintOf(avro)}`, 'utf8')],
]

/** The value of the header; undefined without it, '' if it is not text. */
export const schemaHeaderOf = ({ headers }: KafkaRecord): string | undefined => {
  const value = headers?.[SCHEMA_HEADER]
  if (value === undefined) return undefined
  return Buffer.isBuffer(value) ? value.toString('utf8') : ''
}

/** Characters of a header at most, since readers cache headers and another program may write any. */
export const MAX_HEADER_LENGTH = 256

/** Null if the header is malformed. */
export const parseSchemaHeader = (header: string): NamedSchema | null => {
  if (header.length > MAX_HEADER_LENGTH) return null
  const [, schema, fingerprint] = /^([A-Za-z_][\w.]*\.v[1-9]\d*) ([0-9a-f]{16})$/.exec(header) ?? []
  return schema && fingerprint ? { schema, fingerprint } : null
}
