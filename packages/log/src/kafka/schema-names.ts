/** Names of schemas, and what tells two texts of one name apart. */
import { InstarError } from '@instar/events/errors'
import { createHash } from 'node:crypto'

/** `TurnCaptured.v1` → subject `TurnCaptured`, version 1: a record's versions are one subject's, in order. */
export const subjectOf = (schema: string): { subject: string; version: number } => {
  const [, subject, version] = /^(.+)\.v([1-9]\d*)$/.exec(schema) ?? []
  if (!subject || !version) throw new InstarError('internal', `${schema} is not of the form Name.vN`, { schema })
  return { subject, version: Number(version) }
}

/** Without the blanks that people write. */
export const canonical = (avro: string): string => JSON.stringify(JSON.parse(avro))

/** Of the canonical text: the first 16 hexadecimal digits of its SHA-256. */
export const fingerprintOf = (avro: string): string =>
  createHash('sha256').update(canonical(avro)).digest('hex').slice(0, 16)
