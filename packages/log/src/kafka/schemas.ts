/**
 * Which number stands for which schema. The registry gives the numbers; they are asked for once and kept.
 * A registry that does not answer is never taken for one that says no.
 */
import { InstarError } from '@instar/events/errors'
import { COMPATIBILITY, SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import { messageOf } from './client.ts'
import { patiently } from './wait.ts'

export interface SchemaIds {
  /** If it was asked for before. */
  known(schema: string): number | undefined
  /** Throws `not_set_up` when the registry does not hold the schema; anything else when it does not answer. */
  idOf(schema: string): Promise<number>
  /** If it was asked for before. */
  nameOf(id: number): string | undefined
  /** Undefined when the registry is sure that there is no such schema; throws when it does not answer. */
  find(id: number): Promise<string | undefined>
}

/** Ids agreed upon elsewhere. */
export const fixedIds = (ids: ReadonlyMap<string, number>): SchemaIds => {
  const names = new Map([...ids].map(([name, id]) => [id, name]))
  return {
    known: (schema) => ids.get(schema),
    async idOf(schema) {
      const id = ids.get(schema)
      if (id === undefined) throw notSetUp(schema)
      return id
    },
    nameOf: (id) => names.get(id),
    find: () => Promise.resolve(undefined),
  }
}

/** `TurnCaptured.v1` → subject `TurnCaptured`, version 1: a record's versions are one subject's, in order. */
export const subjectOf = (schema: string): { subject: string; version: number } => {
  const [, subject, version] = /^(.+)\.v([1-9]\d*)$/.exec(schema) ?? []
  if (!subject || !version) throw new InstarError('internal', `${schema} is not of the form Name.vN`, { schema })
  return { subject, version: Number(version) }
}

const notSetUp = (schema: string): InstarError => new InstarError('not_set_up', `the schema registry does not hold ${schema}`, { schema })

export const canonical = (avro: string): { type: SchemaType.AVRO; schema: string } => ({ type: SchemaType.AVRO, schema: JSON.stringify(JSON.parse(avro)) })

/** What the registry said, if it was the registry that spoke: a refused connection also has a status, 400. */
const answered = (cause: unknown): number | undefined => {
  for (let error = cause; error instanceof Error; error = error.cause) {
    if ('status' in error && typeof error.status === 'number') return [404, 409, 422].includes(error.status) ? error.status : undefined
    if (error.name === 'ConfluentSchemaRegistryError') return 404
    if (error.name === 'ConfluentSchemaRegistryCompatibilityError') return 409
  }
  return undefined
}

/** Unless it is told, the library waits for ever for one that takes a connection and says nothing, as a server does that is being started. */
const ANSWER_MS = 5_000

const clientOf = (host: string, clientId: string, answerMs = ANSWER_MS): SchemaRegistry => new SchemaRegistry({
  host, clientId, retry: { retries: 0 },
  middlewares: [() => ({ prepareRequest: async (next) => (await next()).enhance({ timeout: answerMs }) })],
})

export class RegistryIds implements SchemaIds {
  readonly #registry: SchemaRegistry
  readonly #schemas: Readonly<Record<string, string>>
  readonly #ids = new Map<string, number>()
  readonly #names = new Map<number, string>()

  constructor(url: string, clientId: string, schemas: Readonly<Record<string, string>>, answerMs?: number) {
    this.#registry = clientOf(url, clientId, answerMs)
    this.#schemas = schemas
  }

  known(schema: string): number | undefined {
    return this.#ids.get(schema)
  }

  async idOf(schema: string): Promise<number> {
    const kept = this.#ids.get(schema)
    if (kept !== undefined) return kept
    try {
      const id = await this.#registry.getRegistryIdBySchema(subjectOf(schema).subject, canonical(this.#schemas[schema]!))
      this.#ids.set(schema, id)
      this.#names.set(id, schema)
      return id
    } catch (cause) {
      if (answered(cause) === 404) throw notSetUp(schema)
      throw cause
    }
  }

  nameOf(id: number): string | undefined {
    return this.#names.get(id)
  }

  async find(id: number): Promise<string | undefined> {
    for (const schema of Object.keys(this.#schemas)) {
      await this.idOf(schema).catch((cause: unknown) => {
        if (!(cause instanceof InstarError)) throw cause
      })
    }
    return this.#names.get(id) ?? await this.#foreign(id)
  }

  /** A schema that only another build knows: named so that a reader can say what it met. */
  async #foreign(id: number): Promise<string | undefined> {
    try {
      const schema = await this.#registry.getSchema(id)
      const name = 'name' in schema && typeof schema.name === 'string' ? schema.name : 'schema'
      this.#names.set(id, `${name}#${id}`)
      return this.#names.get(id)
    } catch (cause) {
      if (answered(cause) === 404) return undefined
      throw cause
    }
  }
}

/** Of every subject: what reads all of its earlier versions. */
export const LEVEL = COMPATIBILITY.BACKWARD_TRANSITIVE

export type RegisterOptions = {
  /** The registry's Confluent-compatible address. */
  registry: string
  /** Schema name → Avro JSON. */
  schemas: Readonly<Record<string, string>>
  /** Milliseconds for which a registry that does not answer is asked again. Default 0. */
  patience?: number
}

/**
 * Brings the registry to these schemas, oldest version first; safe to run again. Every subject accepts from
 * then on only what reads all of its earlier versions. Throws `schema_changed` for one that does not, or
 * that differs from what stands in its place; `log_unavailable` when the registry does not answer.
 */
export const registerSchemas = ({ patience = 0, ...options }: RegisterOptions): Promise<Map<string, number>> =>
  patiently('registering schemas', () => register(options), patience, new AbortController().signal)

const register = async ({ registry, schemas }: RegisterOptions): Promise<Map<string, number>> => {
  const client = clientOf(registry, 'setup')
  const ids = new Map<string, number>()
  const ordered = Object.keys(schemas).map((name) => ({ name, ...subjectOf(name) })).toSorted((a, b) => a.version - b.version)
  for (const { name, subject, version } of ordered) {
    try {
      const { id } = await client.register(canonical(schemas[name]!), { subject, compatibility: LEVEL })
      if (await client.getRegistryId(subject, version) !== id) throw changed(name, 'another schema has its place')
      ids.set(name, id)
    } catch (cause) {
      if (cause instanceof InstarError) throw cause
      if (answered(cause) !== undefined) throw changed(name, messageOf(cause), cause)
      throw new InstarError('log_unavailable', `the schema registry at ${registry} does not answer: ${messageOf(cause)}`, { registry }, { cause })
    }
  }
  return ids
}

const changed = (schema: string, why: string, cause?: unknown): InstarError =>
  new InstarError('schema_changed', `the registry refuses ${schema}: ${why}`, { schema }, { cause })
