/**
 * Questions to a schema registry that speaks the Confluent-compatible interface, over HTTP or HTTPS: by its client
 * library, and by plain requests where the library has no question for it (the text under a number, numbers that were
 * lost).
 */
import { request as plain } from 'node:http'
import { Agent, request as secure } from 'node:https'
import { InstarError } from '@instar/events/errors'
import { messageOf } from './client.ts'
import { COMPATIBILITY, SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'

export type RegistryAccess = {
  /** The Confluent-compatible address; http or https, without a user in it. */
  url: string
  /** For HTTP Basic. */
  username?: string | undefined
  password?: string | undefined
  /** PEM of the authorities that its certificate may come from. Default: those of Node. */
  ca?: string | undefined
  /** Milliseconds for one answer. Default 5,000. */
  answerMs?: number
}

export type RegistryAnswer = { status: number; said: unknown; date: string | null }

const ANSWER_MS = 5_000
/** More than any schema of ours with its envelope. */
const MOST_BYTES = 8 << 20
const TYPE = 'application/vnd.schemaregistry.v1+json'
/** What is an answer about schemas; 422: it is none, or not a version. */
const ANSWERS = new Set([200, 404, 409, 422])
const REFUSALS = new Set([401, 403])
/** Of every subject: what reads all of its earlier versions. */
export const LEVEL = COMPATIBILITY.BACKWARD_TRANSITIVE

const basic = ({ username, password }: RegistryAccess): string | undefined =>
  username === undefined
    ? undefined
    : `Basic ${Buffer.from(`${username}:${password ?? ''}`, 'utf8').toString('base64')}`

/** Without a timeout the library waits without end for a server that accepts the connection and does not answer. */
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
        prepareRequest: async (next) => (await next()).enhance({ timeout: access.answerMs ?? ANSWER_MS, ...headers }),
      }),
    ],
  })
}

export class RegistryClient {
  readonly url: string
  readonly #access: RegistryAccess
  readonly #library: SchemaRegistry

  constructor(given: string | RegistryAccess) {
    const access = typeof given === 'string' ? { url: given } : given
    this.url = access.url.replace(/\/$/, '')
    this.#access = access
    this.#library = libraryOf(this.url, access)
  }

  /** Undefined where the registry does not hold it under the subject. */
  async idOf(subject: string, avro: string): Promise<number | undefined> {
    try {
      return await this.#library.getRegistryIdBySchema(subject, { type: SchemaType.AVRO, schema: avro })
    } catch (cause) {
      if (this.#answered(cause) === 404) return undefined
      throw cause
    }
  }

  /** Its number; or why the registry refuses it, which has to be of this level, or of none yet. */
  async register(subject: string, avro: string): Promise<number | { refused: string }> {
    try {
      return (await this.#library.register({ type: SchemaType.AVRO, schema: avro }, { subject, compatibility: LEVEL }))
        .id
    } catch (cause) {
      if (this.#answered(cause) !== undefined)
        return { refused: cause instanceof Error ? cause.message : String(cause) }
      throw cause
    }
  }

  /** The registry's answer, if it came from the registry: the library also gives a refused connection a status, 400. */
  #answered(cause: unknown): number | undefined {
    for (let error = cause; error instanceof Error; error = error.cause) {
      if ('status' in error && typeof error.status === 'number') {
        if (REFUSALS.has(error.status)) throw this.#refused(error.status, 'a schema')
        return ANSWERS.has(error.status) ? error.status : undefined
      }
      if (error.name === 'ConfluentSchemaRegistryError') return 404
      if (error.name === 'ConfluentSchemaRegistryCompatibilityError') return 409
    }
    return undefined
  }

  #refused(status: number, what: string): InstarError {
    return new InstarError('registry_refused', `the schema registry at ${this.url} answers ${status} to ${what}`, {
      registry: this.url,
      status,
    })
  }

  /**
   * Status 200, 404, 409 or 422, and what was said. Throws `registry_refused` for 401 and 403, which no later try
   * betters; a plain error for any other status, for bytes that are no JSON, and for silence.
   */
  async ask(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<RegistryAnswer> {
    const { status, text, date } = await this.#send(method, path, body)
    if (REFUSALS.has(status)) throw this.#refused(status, `${method} ${path}`)
    if (!ANSWERS.has(status)) throw new Error(`HTTP ${status} to ${method} ${path}`)
    try {
      return { status, said: JSON.parse(text), date }
    } catch (cause) {
      throw new Error(`what answers ${method} ${path} is no schema registry`, { cause })
    }
  }

  #send(method: string, path: string, body: unknown): Promise<{ status: number; text: string; date: string | null }> {
    const { ca, answerMs = ANSWER_MS } = this.#access
    const authorization = basic(this.#access)
    const url = new URL(`${this.url}${path}`)
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => sent.destroy(new Error(`Timeout (${answerMs}ms)`)), answerMs)
      const fail = (cause: Error): void => {
        clearTimeout(late)
        reject(cause)
      }
      const sent = (url.protocol === 'https:' ? secure : plain)(
        url,
        {
          method,
          agent: false,
          headers: {
            accept: `${TYPE}, application/json`,
            ...(authorization === undefined ? {} : { authorization }),
            ...(content ? { 'content-type': TYPE, 'content-length': content.length } : {}),
          },
          ...(ca === undefined ? {} : { ca }),
        },
        (answer) => {
          const chunks: Buffer[] = []
          let bytes = 0
          answer
            .on('data', (chunk: Buffer) => {
              bytes += chunk.length
              if (bytes > MOST_BYTES)
                sent.destroy(new Error(`the answer to ${method} ${path} is longer than ${MOST_BYTES} bytes`))
              else chunks.push(chunk)
            })
            .on('end', () => {
              clearTimeout(late)
              resolve({
                status: answer.statusCode!,
                text: Buffer.concat(chunks).toString('utf8'),
                date: answer.headers.date ?? null,
              })
            })
            .on('error', fail)
        },
      )
      sent.on('error', fail).end(content)
    })
  }
}

/** What `ask` resolves with. Throws `log_unavailable` if the registry does not answer; InstarErrors pass. */
export const answerOf = async <T>(client: RegistryClient, ask: () => Promise<T>): Promise<T> => {
  try {
    return await ask()
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
    throw new InstarError(
      'log_unavailable',
      `the schema registry at ${client.url} does not answer: ${messageOf(cause)}`,
      { registry: client.url },
      { cause },
    )
  }
}
