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

/** The schema's JSON without white space. A registry also has schemas of other kinds, whose text is not JSON. */
export const canonical = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text))
  } catch (cause) {
    if (cause instanceof SyntaxError) return text
    throw cause
  }
}

/** The record type of a schema name: without the version, if it has one. */
export const typeOf = (schema: string): string => schema.replace(/\.v[1-9]\d*$/, '')

/** The first 16 hexadecimal digits of the SHA-256 of the canonical text. */
export const fingerprintOf = (avro: string): string =>
  createHash('sha256').update(canonical(avro)).digest('hex').slice(0, 16)
