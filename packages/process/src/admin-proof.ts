/**
 * How a gateway shows that it knows the admin token, before a command sends it: HMAC-SHA256 (RFC 2104) of a nonce of the
 * command and of the end of the connection that the gateway has. A listener elsewhere that forwards the question gets a
 * proof for the connection that it made, not for the one that it accepted.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

/** `GET`, with `nonce`: `NONCE_BYTES` bytes in base64url. */
export const PROOF_PATH = '/health/admin-proof'
export const NONCE_BYTES = 32
/** The text of a nonce in base64url. */
export const NONCE_FORM = /^[\w-]{43}$/

/** The gateway's end of a connection: an IP address and a port. */
export type ConnectionEnd = { address: string; port: number }

/** Of the messages that the token signs, only a proof begins so. */
const DOMAIN = 'instar-admin-proof\0'

/** IPv4 in IPv6 is IPv4, and a zone is left out: each end has a name of its own for it. */
const addressText = (address: string): string =>
  address
    .toLowerCase()
    .replace(/%.*$/, '')
    .replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/, '')

/** 32 bytes. `nonce`: `NONCE_BYTES` bytes; throws `RangeError` for another length. */
export const adminProof = (token: string, nonce: Uint8Array, { address, port }: ConnectionEnd): Buffer => {
  if (nonce.length !== NONCE_BYTES) throw new RangeError(`a nonce has ${NONCE_BYTES} bytes, not ${nonce.length}`)
  return createHmac('sha256', token)
    .update(DOMAIN)
    .update(nonce)
    .update(`${addressText(address)} ${port}`)
    .digest()
}

/** In constant time. `given`: in base64url. */
export const isAdminProof = (given: string, token: string, nonce: Uint8Array, end: ConnectionEnd): boolean => {
  const [wanted, bytes] = [adminProof(token, nonce, end), Buffer.from(given, 'base64url')]
  return bytes.length === wanted.length && timingSafeEqual(bytes, wanted)
}
