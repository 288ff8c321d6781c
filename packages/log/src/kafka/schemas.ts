/**
 * Resolution of schemas and schema ids. A record's schema is that of its header `instar.schema`; without the header,
 * that of its id by the rows of the topic `schemas`. The registry assigns ids and must agree with the rows. A registry
 * that does not respond is an error and never counts as one that lacks a schema.
 */
import { InstarError } from '@instar/events/errors'
import type { RegistryClient } from './registry-client.ts'
import { parseSchemaHeader } from './schema-header.ts'
import { canonical, fingerprintOf, subjectOf } from './schema-names.ts'
import type { SchemaRow, SchemaTable } from './schema-rows.ts'

/** The schema of a record. `avro`: its text, if the log was not opened with it. */
export type WriterSchema = { schema: string; avro?: string }

export interface SchemaResolver {
  /** The id of a schema if `idOf` returned it before. */
  cachedId(schema: string): number | undefined
  /**
   * The id of a schema. Throws `not_set_up` if the registry or the log lacks it, `registry_differs`, or a request's
   * error.
   */
  idOf(schema: string): Promise<number>
  /** Uses the id on the log, because the registry does not respond. */
  useLogId(schema: string): void
  /** The schema of an id if `findById` returned it before. */
  cachedById(id: number): WriterSchema | undefined
  /**
   * The schema of an id; undefined if log and registry lack it. Throws `registry_differs`, `schema_changed`, request
   * errors.
   */
  findById(id: number): Promise<WriterSchema | undefined>
  /** The schema of a header if `findByHeader` returned it before. `header`: the value of `instar.schema`. */
  cachedByHeader(header: string): WriterSchema | undefined
  /**
   * The schema of a header; undefined if it is malformed. Throws `schema_changed` if this build has another text of it.
   */
  findByHeader(header: string): Promise<WriterSchema | undefined>
  /** All schemas on the log: name → Avro JSON. */
  texts(): Record<string, string>
}

type SchemaParts = {
  /** The schemas of this build: name → Avro JSON. */
  schemas: Readonly<Record<string, string>>
  table: SchemaTable
  /** Reads the rows of the topic `schemas` again. */
  reread(): Promise<readonly SchemaRow[]>
  /** Monotonic milliseconds. Default `performance.now`. */
  now?(): number
}

/** Maximum number of cached headers. Instar writes few different ones, but another program may write any. */
const MAX_HEADERS = 1_000
/** Many more than the new schemas of a build. */
const MAX_REREADS = 100
const REREAD_MS = 5_000

abstract class HeaderSchemas {
  protected readonly parts: SchemaParts
  readonly #headers = new Map<string, WriterSchema>()
  readonly #ownFingerprints: ReadonlyMap<string, string>
  #rereads = MAX_REREADS
  #countedAt = 0

  constructor(parts: SchemaParts) {
    this.parts = parts
    this.#ownFingerprints = new Map(
      Object.entries(parts.schemas).map(([schema, avro]) => [schema, fingerprintOf(avro)]),
    )
  }

  cachedByHeader(header: string): WriterSchema | undefined {
    return this.#headers.get(header)
  }

  async findByHeader(header: string): Promise<WriterSchema | undefined> {
    const found = parseSchemaHeader(header)
    if (!found) return undefined
    const { schema, fingerprint } = found
    const ownFingerprint = this.fingerprint(schema)
    if (ownFingerprint !== undefined && ownFingerprint !== fingerprint)
      throw schemaChanged(
        schema,
        `a record on the log has another schema of this name (fingerprint ${fingerprint}, this build has ${ownFingerprint})`,
      )
    let writerSchema: WriterSchema = { schema }
    if (ownFingerprint === undefined) {
      const known = this.parts.table.named(schema)
      if (!known && !this.mayReread()) return writerSchema
      const row = known ?? (await this.reload(), this.parts.table.named(schema))
      if (row?.fingerprint === fingerprint) writerSchema = { schema, avro: row.avro }
    }
    if (this.#headers.size >= MAX_HEADERS) this.#headers.delete(this.#headers.keys().next().value!)
    this.#headers.set(header, writerSchema)
    return writerSchema
  }

  /**
   * Whether an unknown name or id may cause a read of the topic `schemas`: `MAX_REREADS` at once, then one per
   * `REREAD_MS`. A record beyond that has its name without a text, and its header is not cached.
   */
  protected mayReread(): boolean {
    const now = this.parts.now?.() ?? performance.now()
    this.#rereads = Math.min(MAX_REREADS, this.#rereads + (now - this.#countedAt) / REREAD_MS)
    this.#countedAt = now
    if (this.#rereads < 1) return false
    this.#rereads--
    return true
  }

  texts(): Record<string, string> {
    return Object.fromEntries(this.parts.table.all().map(({ schema, avro }) => [schema, avro]))
  }

  protected fingerprint(schema: string): string | undefined {
    return this.#ownFingerprints.get(schema)
  }

  protected async reload(): Promise<void> {
    this.parts.table.add(await this.parts.reread())
  }
}

/** A resolver with fixed ids, without a registry. */
export class FixedIds extends HeaderSchemas implements SchemaResolver {
  readonly #ids: ReadonlyMap<string, number>
  readonly #names: ReadonlyMap<number, WriterSchema>

  constructor(ids: ReadonlyMap<string, number>, parts: SchemaParts) {
    super(parts)
    this.#ids = ids
    this.#names = new Map([...ids].map(([schema, id]) => [id, { schema }]))
  }

  cachedId(schema: string): number | undefined {
    return this.#ids.get(schema)
  }

  async idOf(schema: string): Promise<number> {
    const id = this.#ids.get(schema)
    if (id === undefined) throw notSetUp(schema, 'it has no schema id')
    return id
  }

  useLogId(): void {
    /* There is no registry. */
  }

  cachedById(id: number): WriterSchema | undefined {
    return this.#names.get(id)
  }

  findById(): Promise<undefined> {
    return Promise.resolve(undefined)
  }
}

export class LogSchemas extends HeaderSchemas implements SchemaResolver {
  readonly #registry: RegistryClient
  readonly #ids = new Map<string, number>()
  readonly #names = new Map<number, WriterSchema>()

  constructor(registry: RegistryClient, parts: SchemaParts) {
    super(parts)
    this.#registry = registry
  }

  cachedId(schema: string): number | undefined {
    return this.#ids.get(schema)
  }

  async idOf(schema: string): Promise<number> {
    const cached = this.#ids.get(schema)
    if (cached !== undefined) return cached
    const { subject } = subjectOf(schema)
    const id = await this.#registry.idOf(subject, canonical(this.parts.schemas[schema]!))
    if (id === undefined)
      throw notSetUp(schema, `the schema registry at ${this.#registry.url} does not have it; run \`instar setup\``)
    await this.#check(schema, id)
    this.#ids.set(schema, id)
    return id
  }

  useLogId(schema: string): void {
    const row = this.parts.table.named(schema)
    if (row && row.fingerprint === this.fingerprint(schema) && !this.#ids.has(schema)) this.#ids.set(schema, row.id)
  }

  async #check(schema: string, id: number): Promise<void> {
    const { table } = this.parts
    if (!table.get(id)) await this.reload()
    const row = table.get(id)
    if (!row) throw notSetUp(schema, `the log lacks its schema id ${id} of the registry; run \`instar setup\``)
    if (row.fingerprint !== this.fingerprint(schema)) throw registryDiffers(this.#registry.url, id, row.schema, schema)
  }

  cachedById(id: number): WriterSchema | undefined {
    return this.#names.get(id)
  }

  async findById(id: number): Promise<WriterSchema | undefined> {
    if (!this.parts.table.get(id) && this.mayReread()) await this.reload()
    const row = this.parts.table.get(id)
    const writerSchema = row ? (this.#ownOrLogged(row.schema, row.avro) ?? undefined) : await this.#findInRegistry(id)
    if (writerSchema) this.#names.set(id, writerSchema)
    else if (row) throw schemaChanged(row.schema, 'the log has another schema of this name')
    return writerSchema
  }

  /** Null if this build has another schema of this name. */
  #ownOrLogged(schema: string, avro: string): WriterSchema | null {
    const ownFingerprint = this.fingerprint(schema)
    return ownFingerprint === undefined ? { schema, avro } : ownFingerprint === fingerprintOf(avro) ? { schema } : null
  }

  /** Looks up an id that is not on the log, in a record of an older build or of another program. */
  async #findInRegistry(id: number): Promise<WriterSchema | undefined> {
    const { status, body } = await this.#registry.request('GET', `/schemas/ids/${id}`)
    const avro = (body as { schema?: unknown } | null)?.schema
    if (status !== 200 || typeof avro !== 'string') return undefined
    const fingerprint = fingerprintOf(avro)
    const ownSchema = Object.keys(this.parts.schemas).find((schema) => this.fingerprint(schema) === fingerprint)
    if (ownSchema !== undefined) return { schema: ownSchema }
    const versions = (await this.#registry.request('GET', `/schemas/ids/${id}/versions`)).body as
      | { subject?: unknown; version?: unknown }[]
      | null
    const [first] = Array.isArray(versions) ? versions : []
    const writerSchema = this.#ownOrLogged(
      first ? `${String(first.subject)}.v${String(first.version)}` : `schema#${id}`,
      avro,
    )
    if (!writerSchema)
      throw registryDiffers(
        this.#registry.url,
        id,
        `${String(first?.subject)}.v${String(first?.version)}`,
        'another schema of this name',
      )
    return writerSchema
  }
}

export const registryDiffers = (url: string, id: number, expected: string, found: string): InstarError =>
  new InstarError(
    'registry_differs',
    `the schema registry at ${url} has ${found} as schema id ${id}, which is ${expected} on the log`,
    { registry: url, id, expected, found },
  )

const notSetUp = (schema: string, why: string): InstarError =>
  new InstarError('not_set_up', `records with schema ${schema} cannot be written: ${why}`, { schema })

const schemaChanged = (schema: string, why: string): InstarError =>
  new InstarError('schema_changed', `${schema}: ${why}`, { schema })
