/** Ids are hashes of their inputs. Random parts are passed in by the caller. */
import { createHash, hash } from 'node:crypto'

const sha256 = (bytes: string | Uint8Array): string => hash('sha256', bytes, 'hex')

/** The sha256 by which blobs, adapters and optimizer states are identified. */
export const contentSha = (bytes: Uint8Array): string => sha256(bytes)

/**
 * The id of a record: the hash of everything that a copy of the log preserves. Timestamp and position are not included;
 * the times of the event are part of the payload.
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
  if (3 * head.length + payload.length > INPUT.length)
    return createHash('sha256').update(head).update(payload).digest('hex')
  // A single call for a short input: creating a Hash object costs more than hashing it.
  const length = INPUT.write(head)
  INPUT.set(payload, length)
  return sha256(INPUT.subarray(0, length + payload.length))
}
/** Overwritten by each call of `recordId`. */
const INPUT = Buffer.allocUnsafe(12 * 1024)

/**
 * An id derived from inputs. `kind` separates ids of different kinds with equal inputs. Inputs must not contain
 * newlines.
 */
export const derivedId = (kind: string, ...inputs: (string | number)[]): string => sha256([kind, ...inputs].join('\n'))

/** The subject of a turn that names neither a user nor an API key. A client can open any number of sessions. */
export const subjectOfSession = (session: string): string => derivedId('subject', 'session', session)
/** The subject of a turn that names no user, under an API key's id. */
export const subjectOfKey = (key: string): string => derivedId('subject', 'key', key)

/** `<session>.<random>`; `random`: 128 random bits in hex. */
export const turnId = (session: string, random: string): string => `${session}.${random}`

/** The session of a turn id: the part before its last dot. */
export const sessionOfTurn = (turn: string): string => turn.slice(0, turn.lastIndexOf('.'))
