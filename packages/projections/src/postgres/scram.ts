/**
 * PostgreSQL's SCRAM verifier of a password (RFC 5803), computed here so that no statement or log contains the
 * password.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'

const ROUNDS = 4096

/** The verifier of an ASCII password. `salt`: 16 random bytes. */
export const scramVerifier = (password: string, salt: Uint8Array = randomBytes(16)): string => {
  const salted = pbkdf2Sync(password, salt, ROUNDS, 32, 'sha256')
  const key = (name: string): Buffer => createHmac('sha256', salted).update(name).digest()
  const stored = createHash('sha256').update(key('Client Key')).digest('base64')
  return `SCRAM-SHA-256$${ROUNDS}:${Buffer.from(salt).toString('base64')}$${stored}:${key('Server Key').toString('base64')}`
}
