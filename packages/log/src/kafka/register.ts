/**
 * Schema registration of the `setup` job: fills the registry, first with the ids on the log, and writes new ids to
 * the log.
 */
import { InstarError } from '@instar/events/errors'
import { KafkaConnection, type ClientOptions } from './client.ts'
import { Producer } from './producer.ts'
import { answerOf, LEVEL, RegistryClient, type RegistryAccess } from './registry-client.ts'
import { canonical, fingerprintOf, subjectOf } from './schema-names.ts'
import { readRows, SchemaTable, writeRows, type SchemaRow } from './schema-rows.ts'
import { registryDiffers } from './schemas.ts'
import { topicNames } from './topics.ts'
import { patiently } from './wait.ts'

type RegisterOptions = {
  /** Its Confluent-compatible address, or how to reach it. */
  registry: string | RegistryAccess
  /** Schema name → Avro JSON. */
  schemas: Readonly<Record<string, string>>
  /** How long to retry a registry or broker that does not answer, ms. Default 0; of `setupSchemas` 60,000. */
  patience?: number
}

type SetupSchemasOptions = RegisterOptions &
  Omit<ClientOptions, 'clientId'> & { clientId?: string; prefix?: string; now?: () => number }
const PATIENCE = 60_000

export type SchemasReport = {
  /** Name → number, of the schemas that were given. */
  ids: ReadonlyMap<string, number>
  /** That the log has and the registry had lost, under their numbers again. */
  restored: string[]
  /**
   * Schemas that did not get their old id: `is` is the id that the registry gave. Our readers accept both; other
   * readers do not find the old one.
   */
  moved: { schema: string; was: number; is: number }[]
}

/**
 * Safe to run again, and by several at once. The log's topics have to be there (`setupKafka`). A registry that lacks
 * what the log has is filled with it, under the same numbers; then the schemas are registered, oldest version first,
 * and what is new is written to the log. Throws `registry_differs` when a number means another schema than on the
 * log, `schema_changed` for a schema that does not read its earlier versions or differs from what stands in its
 * place, `log_unavailable` when the registry or the brokers do not answer.
 */
export const setupSchemas = async (options: SetupSchemasOptions): Promise<SchemasReport> => {
  const {
    registry,
    schemas,
    prefix,
    patience = PATIENCE,
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
    const rows = await patiently('reading schemas', () => readRows(connection, topic), patience, never)
    const table = new SchemaTable(rows)
    const asked = new RegistryClient(registry)
    const { restored, moved } = await patiently('restoring schemas', () => restore(asked, table), patience, never)
    const ids = await patiently('registering schemas', () => register(asked, schemas, table), patience, never)
    const fresh = [
      ...moved.map(({ schema, is }) => ({ id: is, schema, avro: table.named(schema)!.avro })),
      ...[...ids].map(([schema, id]) => ({ id, schema, avro: schemas[schema]! })),
    ].filter(({ id }) => !table.get(id))
    await record(client, topic, fresh, patience, now())
    return { ids, restored, moved }
  } finally {
    connection.close()
  }
}

const record = async (
  client: ClientOptions,
  topic: string,
  rows: readonly SchemaRow[],
  patience: number,
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
  await producer.close(Math.max(patience, LEAST_PATIENCE))
  await writing
}

const LEAST_PATIENCE = 10_000

/** Into the registry alone, which no log is held against: for tests of registries. */
export const registerSchemas = ({ registry, schemas, patience = 0 }: RegisterOptions): Promise<Map<string, number>> =>
  patiently(
    'registering schemas',
    () => register(new RegistryClient(registry), schemas, new SchemaTable()),
    patience,
    new AbortController().signal,
  )

/**
 * Registries give numbers in order, so that schemas which are registered in the order of theirs get the same ones;
 * where numbers are missing between them, schemas that nobody uses take those, and go again.
 */
const restore = async (
  client: RegistryClient,
  table: SchemaTable,
): Promise<Pick<SchemasReport, 'restored' | 'moved'>> => {
  const rows = table.all().toSorted((a, b) => a.id - b.id)
  const held = new Map<number, boolean>()
  for (const { id, schema, fingerprint } of rows) {
    const { status, said } = await answerOf(client, () => client.ask('GET', `/schemas/ids/${id}`))
    const avro = (said as { schema?: unknown }).schema
    if (status === 200 && (typeof avro !== 'string' || fingerprintOf(avro) !== fingerprint))
      throw registryDiffers(client.url, id, schema, nameIn(avro))
    held.set(id, status === 200)
  }
  const restored: string[] = []
  const moved: SchemasReport['moved'] = []
  const fillers: string[] = []
  let last = Math.max(0, ...rows.filter(({ id }) => held.get(id)).map(({ id }) => id))
  for (const { id, schema, avro } of rows.filter((row) => !held.get(row.id))) {
    while (id > last + 1 && fillers.length < MOST_FILLERS) {
      const filler = `instar.restore.${last + 1}`
      const taken = await put(
        client,
        filler,
        JSON.stringify({ type: 'record', name: `Filler${last + 1}`, namespace: 'instar.restore', fields: [] }),
      )
      fillers.push(filler)
      last = Math.max(taken, last + 1)
    }
    const { subject } = subjectOf(schema)
    await level(client, schema, subject)
    const is = await put(client, subject, avro, schema)
    last = Math.max(last, is)
    if (is === id) restored.push(schema)
    else if (table.get(is) && table.get(is)!.schema !== schema)
      throw registryDiffers(client.url, is, table.get(is)!.schema, schema)
    else if (!table.get(is)) moved.push({ schema, was: id, is })
  }
  for (const filler of fillers) {
    await client.ask('DELETE', `/subjects/${filler}`)
    await client.ask('DELETE', `/subjects/${filler}?permanent=true`)
  }
  return { restored, moved }
}

/** Numbers that are further apart than this belong to a registry that holds much else. */
const MOST_FILLERS = 1_000

const nameIn = (avro: unknown): string => {
  const parsed = typeof avro === 'string' ? (JSON.parse(avro) as { name?: unknown }) : {}
  return typeof parsed.name === 'string' ? parsed.name : 'another schema'
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
    await level(client, name, subject)
    const id = await put(client, subject, schemas[name]!, name)
    const row = table.get(id)
    if (row && row.fingerprint !== fingerprintOf(schemas[name]!))
      throw registryDiffers(client.url, id, row.schema, name)
    const stands = await answerOf(client, () =>
      client.ask('GET', `/subjects/${encodeURIComponent(subject)}/versions/${version}`),
    )
    if ((stands.said as { id?: unknown }).id !== id) throw changed(name, 'another schema has its place')
    ids.set(name, id)
  }
  return ids
}

/** Its number. Throws `schema_changed` for a refusal. */
const put = async (client: RegistryClient, subject: string, avro: string, schema = subject): Promise<number> => {
  const given = await answerOf(client, () => client.register(subject, canonical(avro)))
  if (typeof given === 'object') throw changed(schema, given.refused)
  return given
}

const level = async (client: RegistryClient, schema: string, subject: string): Promise<void> => {
  const path = `/config/${encodeURIComponent(subject)}`
  const { said } = await answerOf(client, () => client.ask('GET', path))
  const set = (said as { compatibilityLevel?: unknown }).compatibilityLevel
  if (set === LEVEL) return
  // Some registries tell their default where a subject has no level of its own.
  const usual = (await answerOf(client, () => client.ask('GET', '/config'))).said as { compatibilityLevel?: unknown }
  if (set !== undefined && set !== usual.compatibilityLevel)
    throw changed(schema, `the compatibility of ${subject} is ${JSON.stringify(set)}, should be ${LEVEL}`)
  const { status } = await answerOf(client, () => client.ask('PUT', path, { compatibility: LEVEL }))
  if (status !== 200) throw changed(schema, `the compatibility of ${subject} could not be set: HTTP ${status}`)
}

const changed = (schema: string, why: string): InstarError =>
  new InstarError('schema_changed', `the registry refuses ${schema}: ${why}`, { schema })
