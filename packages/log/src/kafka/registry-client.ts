/**
 * A client of Confluent-compatible schema registries over HTTP or HTTPS. Each request has a limit of time, until the last
 * byte of its response, and of bytes; the client library has neither, so only its constants are used.
 */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { InstarError } from '@instar/events/errors'
import { messageOf } from './client.ts'
import { COMPATIBILITY } from '@kafkajs/confluent-schema-registry'

export type RegistryAccess = {
  /** The http or https URL, without credentials. */
  url: string
  /** The user of HTTP Basic authentication. */
  username?: string | undefined
  password?: string | undefined
  /** Certificate authorities in PEM. Default: those of Node. */
  ca?: string | undefined
  /** Timeout of a request in milliseconds. Default 5,000. */
  timeoutMs?: number
}

export type RegistryResponse = { status: number; body: unknown; date: string | null }

const TIMEOUT_MS = 5_000
/** Maximum bytes of a response; schemas are much smaller. */
const MAX_RESPONSE_BYTES = 8 << 20
const CONTENT_TYPE = 'application/vnd.schemaregistry.v1+json'
/** Statuses of regular responses. 422: invalid schema or version. */
const EXPECTED_STATUSES = new Set([200, 404, 409, 422])
const ACCESS_STATUSES = new Set([401, 403])
/** The compatibility level of all subjects: a version must read all earlier versions. */
export const LEVEL = COMPATIBILITY.BACKWARD_TRANSITIVE

const basic = ({ username, password }: RegistryAccess): string | undefined =>
  username === undefined
    ? undefined
    : `Basic ${Buffer.from(`${username}:${password ?? ''}`, 'utf8').toString('base64')}`

/** Schema ids are 32-bit in the wire format. */
const MAX_ID = 2 ** 32 - 1

export class RegistryClient {
  readonly url: string
  readonly #access: RegistryAccess

  constructor(registry: string | RegistryAccess) {
    const access = typeof registry === 'string' ? { url: registry } : registry
    this.url = access.url.replace(/\/$/, '')
    this.#access = access
  }

  /** The id of a schema; undefined if the registry lacks it under the subject. */
  async idOf(subject: string, avro: string): Promise<number | undefined> {
    const path = `/subjects/${encodeURIComponent(subject)}`
    const response = await this.request('POST', path, { schema: avro })
    return response.status === 404 ? undefined : idIn(response, `POST ${path}`)
  }

  /**
   * Registers a schema. Returns its id, or the reason why the registry refuses it. The subject must have the
   * compatibility level `LEVEL` or none.
   */
  async register(subject: string, avro: string): Promise<number | { refused: string }> {
    const path = `/subjects/${encodeURIComponent(subject)}/versions`
    const response = await this.request('POST', path, { schema: avro })
    if (response.status === 200) return idIn(response, `POST ${path}`)
    const { message } = (response.body ?? {}) as { message?: unknown }
    return { refused: typeof message === 'string' ? message : `HTTP ${response.status}` }
  }

  #accessError(status: number, what: string): InstarError {
    return new InstarError(
      'registry_refused',
      `the schema registry at ${this.url} responds ${status} to ${what}; check its user and password`,
      {
        registry: this.url,
        status,
      },
    )
  }

  /**
   * Sends a request. Resolves for status 200, 404, 409 and 422. Throws `registry_refused` for 401 and 403, and an Error
   * for any other status, a response that is not JSON, and a timeout.
   */
  async request(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<RegistryResponse> {
    const { status, text, date } = await this.#send(method, path, body)
    if (ACCESS_STATUSES.has(status)) throw this.#accessError(status, `${method} ${path}`)
    if (!EXPECTED_STATUSES.has(status)) throw new Error(`HTTP ${status} to ${method} ${path}`)
    try {
      return { status, body: JSON.parse(text), date }
    } catch (cause) {
      throw new Error(`the response to ${method} ${path} is not JSON: the server is not a schema registry`, { cause })
    }
  }

  #send(method: string, path: string, body: unknown): Promise<{ status: number; text: string; date: string | null }> {
    const { ca, timeoutMs = TIMEOUT_MS } = this.#access
    const authorization = basic(this.#access)
    const url = new URL(`${this.url}${path}`)
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => outgoing.destroy(new Error(`Timeout (${timeoutMs}ms)`)), timeoutMs)
      const fail = (cause: Error): void => {
        clearTimeout(timeout)
        reject(cause)
      }
      const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(
        url,
        {
          method,
          agent: false,
          headers: {
            accept: `${CONTENT_TYPE}, application/json`,
            ...(authorization === undefined ? {} : { authorization }),
            ...(content ? { 'content-type': CONTENT_TYPE, 'content-length': content.length } : {}),
          },
          ...(ca === undefined ? {} : { ca }),
        },
        (response) => {
          const chunks: Buffer[] = []
          let bytes = 0
          response
            .on('data', (chunk: Buffer) => {
              bytes += chunk.length
              if (bytes > MAX_RESPONSE_BYTES)
                outgoing.destroy(new Error(`the response to ${method} ${path} exceeds ${MAX_RESPONSE_BYTES} bytes`))
              else chunks.push(chunk)
            })
            .on('end', () => {
              clearTimeout(timeout)
              resolve({
                status: response.statusCode!,
                text: Buffer.concat(chunks).toString('utf8'),
                date: response.headers.date ?? null,
              })
            })
            .on('error', fail)
        },
      )
      outgoing.on('error', fail).end(content)
    })
  }
}

/** The id of a response. Throws an Error if it has none: the server is not a schema registry, or not a healthy one. */
const idIn = ({ status, body }: RegistryResponse, what: string): number => {
  const id = (body as { id?: unknown } | null)?.id
  if (status === 200 && Number.isInteger(id) && (id as number) >= 0 && (id as number) <= MAX_ID) return id as number
  throw new Error(`the response ${status} to ${what} has no schema id`)
}

/** Awaits a request. Throws `log_unavailable` if the registry does not respond, and the request's InstarErrors. */
export const orUnavailable = async <T>(client: RegistryClient, request: () => Promise<T>): Promise<T> => {
  try {
    return await request()
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
    throw new InstarError(
      'log_unavailable',
      `the schema registry at ${client.url} does not respond: ${messageOf(cause)}`,
      { registry: client.url },
      { cause },
    )
  }
}
