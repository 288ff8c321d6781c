/** A connection to a gateway that has shown that it knows the admin token, on which then the token may be sent. */
import { isAdminProof, NONCE_BYTES, PROOF_PATH } from '../admin-proof.ts'
import { randomBytes } from 'node:crypto'
import { Agent, type IncomingMessage } from 'node:http'

/** Bytes of a reply with a proof; it is read from a server that nobody knows yet. */
const MOST_REPLY_BYTES = 1024

/** Sends a GET without any secret. */
type Ask = (path: string, agent: Agent) => Promise<IncomingMessage>
/** `agent` null: the server has given no valid proof; `status`: of its response. */
type Proven = { agent: Agent | null; status: number | undefined }

/**
 * Makes one connection and never a second: once the first is closed, another server may listen there. A request that
 * finds it closed fails as one whose connection failed.
 */
class OneConnection extends Agent {
  private made = false

  constructor() {
    super({ keepAlive: true, maxSockets: 1 })
  }

  override createConnection(...[options, callback]: Parameters<Agent['createConnection']>) {
    if (!this.made) {
      this.made = true
      return super.createConnection(options, callback)
    }
    const error = new Error('The gateway closed the connection before the command was sent.')
    callback?.(Object.assign(error, { code: 'ECONNRESET', syscall: 'connect' }), undefined as never)
    return undefined
  }
}

/** Throws as `ask`. The caller ends the connection with `agent.destroy()`, or by a request that is the last one on it. */
export const provenConnection = async (token: string, ask: Ask): Promise<Proven> => {
  const agent = new OneConnection()
  let proven = false
  try {
    const nonce = randomBytes(NONCE_BYTES)
    const response = await ask(`${PROOF_PATH}?nonce=${nonce.toString('base64url')}`, agent)
    const { remoteAddress: address, remotePort: port } = response.socket
    const given = await proofIn(response)
    proven =
      response.statusCode === 200 &&
      given !== null &&
      address !== undefined &&
      port !== undefined &&
      isAdminProof(given, token, nonce, { address, port })
    return { agent: proven ? agent : null, status: response.statusCode }
  } finally {
    if (!proven) agent.destroy()
  }
}

/** Null for a reply that has none, is too long or ends too early. */
const proofIn = async (response: IncomingMessage): Promise<string | null> => {
  let body = ''
  try {
    for await (const piece of response.setEncoding('latin1') as AsyncIterable<string>) {
      body += piece
      if (body.length > MOST_REPLY_BYTES) return null
    }
    const { proof } = JSON.parse(body) as { proof?: unknown }
    return typeof proof === 'string' ? proof : null
  } catch {
    return null
  }
}
