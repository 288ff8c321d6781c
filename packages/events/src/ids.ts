/** Ids are hashes of their inputs; the only random ones come in from the shell. */
import { createHash, hash } from 'node:crypto'

const sha256 = (bytes: string | Uint8Array): string => hash('sha256', bytes, 'hex')

/** sha256 of bytes: the name of blobs, adapters, optimizer states. */
export const contentSha = (bytes: Uint8Array): string => sha256(bytes)

/**
 * The id of a record: the hash of all that a copy of the log keeps. Timestamps and positions are not in it
 * (the record's own times are in its payload).
 */
export const recordId = ({
  topic,
  key,
  schema,
  payload,
}: {
  topic: string
  key: string
  schema: string
  payload: Uint8Array
}): string => {
  const head = `${topic}\n${key}\n${schema}\n`
  // One call for a short one: an object of the hash costs more than its bytes.
  return payload.length < SHORT
    ? sha256(Buffer.concat([Buffer.from(head), payload]))
    : createHash('sha256').update(head).update(payload).digest('hex')
}
const SHORT = 8192

/** An id from named inputs; `kind` keeps two kinds of id apart that share inputs. Inputs may not hold newlines. */
export const derivedId = (kind: string, ...inputs: (string | number)[]): string => sha256([kind, ...inputs].join('\n'))

/** A turn's id: its session, a dot, 128 random bits in hex. Session ids hold no dot. */
export const turnId = (session: string, random: string): string => `${session}.${random}`

export const sessionOfTurn = (turn: string): string => turn.slice(0, turn.lastIndexOf('.'))
