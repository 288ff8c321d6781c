/**
 * A client of Confluent-compatible schema registries over HTTP or HTTPS. Uses a client library, and plain requests for
 * operations that the library lacks (the schema of an id, deletion of subjects).
 */
import { request as httpRequest } from 'node:http'
import { Agent, request as httpsRequest } from 'node:https'
import { InstarError } from '@instar/events/errors'
import { messageOf } from './client.ts'
import { COMPATIBILITY, SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'

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

/** The library has no default timeout: without one it would wait forever for a server that does not respond. */
const libraryOf = (host: string, access: RegistryAccess): SchemaRegistry => {
  const authorization = basic(access)
  const headers = authorization === undefined ? {} : { headers: { authorization } }
  return new SchemaRegistry({
    host,
    clientId: 'instar',
    retry: { retries: 0 },
    ...(access.ca === undefined ? {} : { agent: new Agent({ ca: access.ca }) }),
    middlewares: [
      () => ({
        prepareRequest: async (next) => (await next()).enhance({ timeout: access.timeoutMs ?? TIMEOUT_MS, ...headers }),
      }),
    ],
  })
}

export class RegistryClient {
  readonly url: string
  readonly #access: RegistryAccess
  readonly #library: SchemaRegistry

  constructor(registry: string | RegistryAccess) {
    const access = typeof registry === 'string' ? { url: registry } : registry
    this.url = access.url.replace(/\/$/, '')
    this.#access = access
    this.#library = libraryOf(this.url, access)
  }

  /** The id of a schema; undefined if the registry lacks it under the subject. */
  async idOf(subject: string, avro: string): Promise<number | undefined> {
    try {
      return await this.#library.getRegistryIdBySchema(subject, { type: SchemaType.AVRO, schema: avro })
    } catch (cause) {
      if (this.#statusOf(cause) === 404) return undefined
      throw cause
    }
  }

  /**
   * Registers a schema. Returns its id, or the reason why the registry refuses it. The subject must have the
   * compatibility level `LEVEL` or none.
   */
  async register(subject: string, avro: string): Promise<number | { refused: string }> {
    try {
      return (await this.#library.register({ type: SchemaType.AVRO, schema: avro }, { subject, compatibility: LEVEL }))
        .id
    } catch (cause) {
      if (this.#statusOf(cause) !== undefined)
        return { refused: cause instanceof Error ? cause.message : String(cause) }
      throw cause
    }
  }

  /** The HTTP status if the registry sent it. The library also reports a refused connection with status 400. */
  #statusOf(cause: unknown): number | undefined {
    for (let error = cause; error instanceof Error; error = error.cause) {
      if ('status' in error && typeof error.status === 'number') {
        if (ACCESS_STATUSES.has(error.status)) throw this.#accessError(error.status, 'a schema')
        return EXPECTED_STATUSES.has(error.status) ? error.status : undefined
      }
      if (error.name === 'ConfluentSchemaRegistryError') return 404
      if (error.name === 'ConfluentSchemaRegistryCompatibilityError') return 409
    }
    return undefined
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
