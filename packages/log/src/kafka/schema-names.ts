/** Names, canonical text and fingerprints of schemas. */
import { InstarError } from '@instar/events/errors'
import { createHash } from 'node:crypto'

/** `TurnCaptured.v1` → subject `TurnCaptured`, version 1. */
export const subjectOf = (schema: string): { subject: string; version: number } => {
  const [, subject, version] = /^(.+)\.v([1-9]\d*)$/.exec(schema) ?? []
  if (!subject || !version)
    throw new InstarError('internal', `schema name ${schema} does not have the format Name.vN`, { schema })
  return { subject, version: Number(version) }
}

/** The schema's JSON without white space. */
export const canonical = (avro: string): string => JSON.stringify(JSON.parse(avro))

/** The first 16 hexadecimal digits of the SHA-256 of the canonical text. */
export const fingerprintOf = (avro: string): string =>
  createHash('sha256').update(canonical(avro)).digest('hex').slice(0, 16)
