/**
 * Schema registration of the `setup` job: restores schemas of the log that the registry lacks, registers those of this
 * build, and writes new schema ids to the log.
 */
import { InstarError } from '@instar/events/errors'
import { KafkaConnection, type ClientOptions } from './client.ts'
import { Producer } from './producer.ts'
import { LEVEL, orUnavailable, RegistryClient, type RegistryAccess } from './registry-client.ts'
import { canonical, fingerprintOf, subjectOf } from './schema-names.ts'
import { readRows, SchemaTable, writeRows, type SchemaRow } from './schema-rows.ts'
import { registryDiffers } from './schemas.ts'
import { topicNames } from './topics.ts'
import { withRetries } from './retry.ts'

type RegisterOptions = {
  /** The URL of the Confluent-compatible registry, or its access options. */
  registry: string | RegistryAccess
  /** Schema name → Avro JSON. */
  schemas: Readonly<Record<string, string>>
  /** Milliseconds for which requests are retried. Default 0; of `setupSchemas` 60,000. */
  retryMs?: number
}

type SetupSchemasOptions = RegisterOptions &
  Omit<ClientOptions, 'clientId'> & { clientId?: string; prefix?: string; now?: () => number }
const DEFAULT_RETRY_MS = 60_000

export type SchemasReport = {
  /** The registry's ids of `RegisterOptions.schemas`: name → id. */
  ids: ReadonlyMap<string, number>
  /** Schemas of the log that the registry had lost and that have their old ids again. */
  restored: string[]
  /**
   * Schemas that the registry had lost and that have a new id (`is`) instead of the old one (`was`). Instar accepts
   * both; other readers of the registry do not find the old one.
   */
  moved: { schema: string; was: number; is: number }[]
}

/**
 * Idempotent; several processes may run it concurrently. Requires the topics of `setupKafka`. Restores the log's
 * schemas in the registry under the same ids, registers the schemas, oldest version first, and writes new ids to the
 * log. Throws `registry_differs` if an id refers to another schema than on the log, `schema_changed` if a schema cannot
 * read its earlier versions or differs from the registered one of its version, `log_unavailable` if the registry or the
 * brokers do not respond.
 */
export const setupSchemas = async (options: SetupSchemasOptions): Promise<SchemasReport> => {
  const {
    registry,
    schemas,
    prefix,
    retryMs = DEFAULT_RETRY_MS,
    now = Date.now,
    clientId = 'setup',
    brokers,
    security,
  } = options
  const never = new AbortController().signal
  const { schemas: topic } = topicNames(prefix)
  const client: ClientOptions = { brokers, clientId, ...(security ? { security } : {}) }
  const connection = new KafkaConnection(client, [topic])
  try {
    const rows = await withRetries('reading schemas', () => readRows(connection, topic), retryMs, never)
    const table = new SchemaTable(rows)
    const registryClient = new RegistryClient(registry)
    const { restored, moved } = await withRetries(
      'restoring schemas',
      () => restore(registryClient, table),
      retryMs,
      never,
    )
    const ids = await withRetries('registering schemas', () => register(registryClient, schemas, table), retryMs, never)
    const newRows = [
      ...moved.map(({ schema, is }) => ({ id: is, schema, avro: table.named(schema)!.avro })),
      ...[...ids].map(([schema, id]) => ({ id, schema, avro: schemas[schema]! })),
    ].filter(({ id }) => !table.get(id))
    await writeNewRows(client, topic, newRows, retryMs, now())
    return { ids, restored, moved }
  } finally {
    connection.close()
  }
}

const writeNewRows = async (
  client: ClientOptions,
  topic: string,
  rows: readonly SchemaRow[],
  retryMs: number,
  now: number,
): Promise<void> => {
  if (rows.length === 0) return
  const producer = new Producer(
    new KafkaConnection(client, [topic]),
    { records: 1_000, bytes: 64 << 20 },
    () => undefined,
  )
  const writing = writeRows(producer, topic, rows, now)
  writing.catch(() => undefined)
  await producer.close(Math.max(retryMs, MIN_CLOSE_MS))
  await writing
}

const MIN_CLOSE_MS = 10_000

/** Registers schemas without a log. For tests. Returns name → id. */
export const registerSchemas = ({ registry, schemas, retryMs = 0 }: RegisterOptions): Promise<Map<string, number>> =>
  withRetries(
    'registering schemas',
    () => register(new RegistryClient(registry), schemas, new SchemaTable()),
    retryMs,
    new AbortController().signal,
  )

/**
 * Registers the schemas of the log that the registry lacks. Registries assign ids in order, so schemas are registered
 * in the order of their ids; unused filler schemas take the ids between them and are deleted afterwards.
 */
const restore = async (
  client: RegistryClient,
  table: SchemaTable,
): Promise<Pick<SchemasReport, 'restored' | 'moved'>> => {
  const rows = table.all().toSorted((a, b) => a.id - b.id)
  const inRegistry = new Map<number, boolean>()
  for (const { id, schema, fingerprint } of rows) {
    const { status, body } = await orUnavailable(client, () => client.request('GET', `/schemas/ids/${id}`))
    const avro = (body as { schema?: unknown }).schema
    if (status === 200 && (typeof avro !== 'string' || fingerprintOf(avro) !== fingerprint))
      throw registryDiffers(client.url, id, schema, nameIn(avro))
    inRegistry.set(id, status === 200)
  }
  const restored: string[] = []
  const moved: SchemasReport['moved'] = []
  const fillers: string[] = []
  let last = Math.max(0, ...rows.filter(({ id }) => inRegistry.get(id)).map(({ id }) => id))
  for (const { id, schema, avro } of rows.filter((row) => !inRegistry.get(row.id))) {
    while (id > last + 1 && fillers.length < MAX_FILLERS) {
      const filler = `instar.restore.${last + 1}`
      const fillerId = await registerSchema(
        client,
        filler,
        JSON.stringify({ type: 'record', name: `Filler${last + 1}`, namespace: 'instar.restore', fields: [] }),
      )
      fillers.push(filler)
      last = Math.max(fillerId, last + 1)
    }
    const { subject } = subjectOf(schema)
    await setLevel(client, schema, subject)
    const is = await registerSchema(client, subject, avro, schema)
    last = Math.max(last, is)
    if (is === id) restored.push(schema)
    else if (table.get(is) && table.get(is)!.schema !== schema)
      throw registryDiffers(client.url, is, table.get(is)!.schema, schema)
    else if (!table.get(is)) moved.push({ schema, was: id, is })
  }
  for (const filler of fillers) {
    await client.request('DELETE', `/subjects/${filler}`)
    await client.request('DELETE', `/subjects/${filler}?permanent=true`)
  }
  return { restored, moved }
}

/** Maximum number of filler schemas. A larger gap in the ids means that the registry has schemas of other programs. */
const MAX_FILLERS = 1_000

const nameIn = (text: unknown): string => {
  try {
    const { name } = JSON.parse(String(text)) as { name?: unknown }
    if (typeof name === 'string') return name
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
  }
  return 'another schema'
}

const register = async (
  client: RegistryClient,
  schemas: Readonly<Record<string, string>>,
  table: SchemaTable,
): Promise<Map<string, number>> => {
  const ids = new Map<string, number>()
  const ordered = Object.keys(schemas)
    .map((name) => ({ name, ...subjectOf(name) }))
    .toSorted((a, b) => a.version - b.version)
  for (const { name, subject, version } of ordered) {
    await setLevel(client, name, subject)
    const id = await registerSchema(client, subject, schemas[name]!, name)
    const row = table.get(id)
    if (row && row.fingerprint !== fingerprintOf(schemas[name]!))
      throw registryDiffers(client.url, id, row.schema, name)
    const registered = await orUnavailable(client, () =>
      client.request('GET', `/subjects/${encodeURIComponent(subject)}/versions/${version}`),
    )
    if ((registered.body as { id?: unknown }).id !== id)
      throw schemaRefused(name, 'another schema is registered as this version')
    ids.set(name, id)
  }
  return ids
}

/** Registers a schema and returns its id. Throws `schema_changed` if the registry refuses it. */
const registerSchema = async (
  client: RegistryClient,
  subject: string,
  avro: string,
  schema = subject,
): Promise<number> => {
  const result = await orUnavailable(client, () => client.register(subject, canonical(avro)))
  if (typeof result === 'object') throw schemaRefused(schema, result.refused)
  return result
}

/** Sets the compatibility level of a subject. Throws `schema_changed` if it has another one. */
const setLevel = async (client: RegistryClient, schema: string, subject: string): Promise<void> => {
  const path = `/config/${encodeURIComponent(subject)}`
  const { body } = await orUnavailable(client, () => client.request('GET', path))
  const set = (body as { compatibilityLevel?: unknown }).compatibilityLevel
  if (set === LEVEL) return
  // Some registries return their default level for a subject without a level.
  const defaultLevel = (await orUnavailable(client, () => client.request('GET', '/config'))).body as {
    compatibilityLevel?: unknown
  }
  if (set !== undefined && set !== defaultLevel.compatibilityLevel)
    throw schemaRefused(schema, `the compatibility level of ${subject} is ${JSON.stringify(set)}, it must be ${LEVEL}`)
  const { status } = await orUnavailable(client, () => client.request('PUT', path, { compatibility: LEVEL }))
  if (status !== 200) throw schemaRefused(schema, `the compatibility level of ${subject} cannot be set: HTTP ${status}`)
}

const schemaRefused = (schema: string, why: string): InstarError =>
  new InstarError('schema_changed', `the registry refuses ${schema}: ${why}`, { schema })
