/**
 * Which number stands for which schema, and which schema a record has. The log itself says so: by the header of a
 * record, and for records without one by the rows of the topic `schemas`. The registry gives new numbers and is
 * held against those rows: one that disagrees is refused. One that does not answer is never taken for one that says no.
 */
import { InstarError } from '@instar/events/errors'
import type { RegistryClient } from './registry-client.ts'
import { namedBy } from './schema-header.ts'
import { canonical, fingerprintOf, subjectOf } from './schema-names.ts'
import type { SchemaRow, SchemaTable } from './schema-rows.ts'

/** `avro`: the writer's schema, when this process was not opened with it. */
export type WriterSchema = { schema: string; avro?: string }

export interface SchemaIds {
  /** If it was asked for before. */
  known(schema: string): number | undefined
  /**
   * Throws `not_set_up` when registry or log lack the schema, `registry_differs`, or the error of the one that does
   * not answer.
   */
  idOf(schema: string): Promise<number>
  /** Takes the log's own word for the number, where the registry does not answer. */
  trust(schema: string): void
  /** If it was asked for before. */
  meant(id: number): WriterSchema | undefined
  /**
   * Undefined when both log and registry lack the schema. Throws when one does not answer, and `registry_differs`,
   * `schema_changed`.
   */
  find(id: number): Promise<WriterSchema | undefined>
  /** If it was asked for before. `header`: the value of `instar.schema`. */
  named(header: string): WriterSchema | undefined
  /** Undefined for a malformed header. Throws `schema_changed` when it names one of our schemas with another text. */
  findNamed(header: string): Promise<WriterSchema | undefined>
  /** The Avro JSON under a name, of ours or as the log has it. */
  textOf(schema: string): Promise<string | undefined>
  /** Of every schema on the log: name → Avro JSON. */
  texts(): Record<string, string>
}

type SchemaParts = {
  /** What this process was opened with: name → Avro JSON. */
  schemas: Readonly<Record<string, string>>
  table: SchemaTable
  /** The rows as they are now. */
  reread(): Promise<readonly SchemaRow[]>
}

abstract class Named {
  protected readonly parts: SchemaParts
  readonly #headers = new Map<string, WriterSchema>()
  readonly #own: ReadonlyMap<string, string>

  constructor(parts: SchemaParts) {
    this.parts = parts
    this.#own = new Map(Object.entries(parts.schemas).map(([schema, avro]) => [schema, fingerprintOf(avro)]))
  }

  named(header: string): WriterSchema | undefined {
    return this.#headers.get(header)
  }

  async findNamed(header: string): Promise<WriterSchema | undefined> {
    const found = namedBy(header)
    if (!found) return undefined
    const { schema, fingerprint } = found
    const own = this.fingerprint(schema)
    if (own !== undefined && own !== fingerprint)
      throw changed(
        schema,
        `a record on the log was written with another text of it (fingerprint ${fingerprint}, ours has ${own})`,
      )
    let meaning: WriterSchema = { schema }
    if (own === undefined) {
      const row = this.parts.table.named(schema) ?? (await this.again(), this.parts.table.named(schema))
      if (row?.fingerprint === fingerprint) meaning = { schema, avro: row.avro }
    }
    if (this.#headers.size < MOST_HEADERS) this.#headers.set(header, meaning)
    return meaning
  }

  async textOf(schema: string): Promise<string | undefined> {
    const own = this.parts.schemas[schema]
    if (own !== undefined) return own
    if (!this.parts.table.named(schema)) await this.again()
    return this.parts.table.named(schema)?.avro
  }

  texts(): Record<string, string> {
    return Object.fromEntries(this.parts.table.all().map(({ schema, avro }) => [schema, avro]))
  }

  protected fingerprint(schema: string): string | undefined {
    return this.#own.get(schema)
  }

  protected async again(): Promise<void> {
    this.parts.table.add(await this.parts.reread())
  }
}

/** Names are ours and those of newer builds; a stranger may write any. */
const MOST_HEADERS = 1_000

/** Numbers agreed upon elsewhere. */
export class FixedIds extends Named implements SchemaIds {
  readonly #ids: ReadonlyMap<string, number>
  readonly #names: ReadonlyMap<number, WriterSchema>

  constructor(ids: ReadonlyMap<string, number>, parts: SchemaParts) {
    super(parts)
    this.#ids = ids
    this.#names = new Map([...ids].map(([schema, id]) => [id, { schema }]))
  }

  known(schema: string): number | undefined {
    return this.#ids.get(schema)
  }

  async idOf(schema: string): Promise<number> {
    const id = this.#ids.get(schema)
    if (id === undefined) throw notSetUp(schema, 'it has no number')
    return id
  }

  trust(): void {
    /* Nobody else is asked. */
  }

  meant(id: number): WriterSchema | undefined {
    return this.#names.get(id)
  }

  find(): Promise<undefined> {
    return Promise.resolve(undefined)
  }
}

export class LogSchemas extends Named implements SchemaIds {
  readonly #registry: RegistryClient
  readonly #ids = new Map<string, number>()
  readonly #names = new Map<number, WriterSchema>()

  constructor(registry: RegistryClient, parts: SchemaParts) {
    super(parts)
    this.#registry = registry
  }

  known(schema: string): number | undefined {
    return this.#ids.get(schema)
  }

  async idOf(schema: string): Promise<number> {
    const kept = this.#ids.get(schema)
    if (kept !== undefined) return kept
    const { subject } = subjectOf(schema)
    const id = await this.#registry.idOf(subject, canonical(this.parts.schemas[schema]!))
    if (id === undefined) throw notSetUp(schema, `the schema registry at ${this.#registry.url} does not hold it`)
    await this.#check(schema, id)
    this.#ids.set(schema, id)
    return id
  }

  trust(schema: string): void {
    const row = this.parts.table.named(schema)
    if (row && row.fingerprint === this.fingerprint(schema) && !this.#ids.has(schema)) this.#ids.set(schema, row.id)
  }

  async #check(schema: string, id: number): Promise<void> {
    const { table } = this.parts
    if (!table.get(id)) await this.again()
    const row = table.get(id)
    if (!row) throw notSetUp(schema, `the log does not know its number in the schema registry, ${id}`)
    if (row.fingerprint !== this.fingerprint(schema)) throw registryDiffers(this.#registry.url, id, row.schema, schema)
  }

  meant(id: number): WriterSchema | undefined {
    return this.#names.get(id)
  }

  async find(id: number): Promise<WriterSchema | undefined> {
    if (!this.parts.table.get(id)) await this.again()
    const row = this.parts.table.get(id)
    const meaning = row ? (this.#ours(row.schema, row.avro) ?? undefined) : await this.#foreign(id)
    if (meaning) this.#names.set(id, meaning)
    else if (row) throw changed(row.schema, 'the log has another text of it')
    return meaning
  }

  /** Null when the name is one of ours and the text is not. */
  #ours(schema: string, avro: string): WriterSchema | null {
    const own = this.fingerprint(schema)
    return own === undefined ? { schema, avro } : own === fingerprintOf(avro) ? { schema } : null
  }

  /** A number that the log does not know, as records of older builds or of others have it. */
  async #foreign(id: number): Promise<WriterSchema | undefined> {
    const { status, said } = await this.#registry.ask('GET', `/schemas/ids/${id}`)
    const avro = (said as { schema?: unknown } | null)?.schema
    if (status !== 200 || typeof avro !== 'string') return undefined
    const print = fingerprintOf(avro)
    const own = Object.keys(this.parts.schemas).find((schema) => this.fingerprint(schema) === print)
    if (own !== undefined) return { schema: own }
    const versions = (await this.#registry.ask('GET', `/schemas/ids/${id}/versions`)).said as
      | { subject?: unknown; version?: unknown }[]
      | null
    const [first] = Array.isArray(versions) ? versions : []
    const meaning = this.#ours(first ? `${String(first.subject)}.v${String(first.version)}` : `schema#${id}`, avro)
    if (!meaning)
      throw registryDiffers(
        this.#registry.url,
        id,
        `${String(first?.subject)}.v${String(first?.version)}`,
        'another text of it',
      )
    return meaning
  }
}

export const registryDiffers = (url: string, id: number, expected: string, found: string): InstarError =>
  new InstarError(
    'registry_differs',
    `the schema registry at ${url} has ${found} under the number ${id}, which is ${expected} on the log`,
    { registry: url, id, expected, found },
  )

const notSetUp = (schema: string, why: string): InstarError =>
  new InstarError('not_set_up', `${schema} cannot be written: ${why}`, { schema })

const changed = (schema: string, why: string): InstarError =>
  new InstarError('schema_changed', `${schema}: ${why}`, { schema })
