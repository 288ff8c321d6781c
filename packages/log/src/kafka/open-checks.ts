/** Checks before a log on Kafka is opened: partition counts, truncated topics, schemas. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { CUT_TOPICS } from '../cuts.ts'
import { defaultCounts, partitionOf, type PartitionCounts } from '../partition.ts'
import { kafkaError, messageOf, type Cluster, type KafkaConnection } from './client.ts'
import { EARLIEST, fetchRecord, offsetsAt, type FetchedPartition, type FetchPosition } from './fetch.ts'
import type { KafkaOptions } from './options.ts'
import { RegistryClient } from './registry-client.ts'
import { readRows, SchemaTable } from './schema-rows.ts'
import { parseSchemaHeader, schemaHeaderOf } from './schema-header.ts'
import { FixedIds, LogSchemas, type SchemaResolver } from './schemas.ts'
import type { TopicNames } from './topics.ts'
import { parseRecord } from './wire-format.ts'

/** `first`: of the topics that may be cut, the first offset of each partition. */
export type CheckedTopics = { counts: PartitionCounts; first: ReadonlyMap<Topic, readonly number[]> }

/**
 * Resolves with the log's partition counts: those that are configured, else default ones. Throws
 * `partition_count_changed`, `log_truncated` for a topic that is never cut, or `log_compacted`.
 */
export const checkTopics = async (
  cluster: Cluster,
  names: TopicNames,
  configured: Partial<Record<Topic, number>> = {},
): Promise<CheckedTopics> => {
  const counts = Object.fromEntries(
    TOPICS.map((topic) => [topic, countOf(cluster, topic, names.of(topic), configured[topic])]),
  ) as Record<Topic, number>
  const partitions = TOPICS.flatMap((topic) =>
    Array.from({ length: counts[topic] }, (_, partition) => ({ topic: names.of(topic), partition })),
  )
  const first = new Map(CUT_TOPICS.map((topic) => [topic as Topic, new Array<number>(counts[topic]).fill(0)]))
  for (const { topic, partition, offset } of await offsetsAt(
    cluster,
    [...partitions, { topic: names.schemas, partition: 0 }],
    EARLIEST,
  )) {
    const cuttable = CUT_TOPICS.find((one) => names.of(one) === topic)
    if (cuttable) first.get(cuttable)![partition] = offset
    else if (offset > 0) throw truncatedError(topic, partition, offset)
  }
  await checkPolicies(cluster, [...TOPICS.map(names.of), names.schemas])
  return { counts, first }
}

const countOf = (cluster: Cluster, topic: Topic, name: string, configured: number | undefined): number => {
  const stored = cluster.findTopicPartitionMetadata(name).length
  const allowed = configured === undefined ? defaultCounts(topic) : [configured]
  if (allowed.includes(stored)) return stored
  throw new InstarError(
    'partition_count_changed',
    `topic ${topic} has ${stored} partitions on this log, but ${allowed.join(' or ')} are configured`,
    { topic, stored, configured: allowed[0] },
  )
}

/**
 * Throws `partition_count_changed` if partitions were added to a topic after records were written: a key would have
 * records in two partitions, whose order is unknown, and reads by key would miss the first ones. The evidence is the first
 * record of each partition: one that Instar wrote is not where its key belongs, and a smaller number of partitions
 * explains the places of all.
 */
export const checkPlacement = async (
  cluster: Cluster,
  names: TopicNames,
  { counts, first }: CheckedTopics,
): Promise<void> => {
  for (const topic of TOPICS) {
    const count = counts[topic]
    const firsts = await Promise.all(
      Array.from({ length: count }, (_, partition) =>
        firstRecord(cluster, topic, { topic: names.of(topic), partition, offset: first.get(topic)?.[partition] ?? 0 }),
      ),
    )
    const found = firsts.filter((first) => first !== undefined)
    const misplaced = found.find(({ key, partition, ours }) => ours && partitionOf(key, count) !== partition)
    if (!misplaced) continue
    const fewer = Array.from({ length: count - 1 }, (_, i) => i + 1)
    if (!fewer.some((n) => found.every(({ key, partition }) => partitionOf(key, n) === partition))) continue
    const { key, partition } = misplaced
    const belongs = partitionOf(key, count)
    throw new InstarError(
      'partition_count_changed',
      `topic ${topic} was given partitions after records were written: key ${key} is in partition ${partition}, of ${count} partitions it belongs to ${belongs}; continue with a copy of the log (\`instar log copy\`)`,
      { topic, key, partition, belongs, count },
    )
  }
}

/** The first record of a partition, whose position is given; undefined if there is none, or no readable one. `ours`: Instar wrote it. */
const firstRecord = async (
  cluster: Cluster,
  topic: Topic,
  position: FetchPosition,
): Promise<{ key: string; partition: number; ours: boolean } | undefined> => {
  const { partition } = position
  const record = await fetchRecord(cluster, position).catch((cause: unknown) => {
    // A batch that cannot be decoded is reported where it is read.
    if (cause instanceof InstarError && !cause.retryable) return undefined
    throw cause
  })
  if (!record || 'unreadable' in parseRecord(topic, partition, record)) return undefined
  return {
    key: record.key!.toString('utf8'),
    partition,
    ours: parseSchemaHeader(schemaHeaderOf(record) ?? '') !== null,
  }
}

/** Kafka's resource type of topics. */
const TOPIC = 2

/** Throws `log_compacted`. A user that may not read the settings of topics opens the log without this check. */
const checkPolicies = async (cluster: Cluster, topics: readonly string[]): Promise<void> => {
  const broker = await cluster.findControllerBroker()
  const request = { resources: topics.map((name) => ({ type: TOPIC, name, configNames: ['cleanup.policy'] })) }
  const { resources } = await broker.describeConfigs(request).catch((cause: unknown) => {
    if (!kafkaError(cause)?.endsWith('AUTHORIZATION_FAILED')) throw cause
    return { resources: [] }
  })
  for (const { resourceName: topic, configEntries } of resources) {
    const policy = configEntries.find(({ configName }) => configName === 'cleanup.policy')?.configValue
    if (policy?.split(',').some((part) => part.trim() === 'compact'))
      throw new InstarError(
        'log_compacted',
        `topic ${topic} has cleanup.policy=${policy}, with which Kafka removes records; it must be delete`,
        { topic, policy },
      )
  }
}

/** Throws `log_compacted` if records are missing between those that were fetched. */
export const requireComplete = (of: string, { partition, missing }: FetchedPartition): void => {
  if (!missing) return
  const { first, next } = missing
  throw new InstarError(
    'log_compacted',
    `${of} ${partition} lacks the offsets ${first} to ${next - 1}; continue with a copy of the log`,
    { topic: of, partition, first, next },
  )
}

/** The error for a topic whose first records are missing, and not by a cut: folds need all of them. */
export const truncatedError = (topic: string, partition: number, first: number): InstarError =>
  new InstarError(
    'log_truncated',
    `${topic} ${partition} starts at offset ${first}: its first ${first} records are missing; continue with a copy of the log`,
    { topic, partition, first },
  )

/**
 * The schemas of the log. If the registry does not respond, the ids on the log are used. Throws `registry_differs` or
 * `not_set_up`.
 */
export const openSchemas = async (
  options: KafkaOptions,
  names: TopicNames,
  connection: KafkaConnection,
): Promise<SchemaResolver> => {
  const { registry, schemas, logLine } = options
  if (typeof registry === 'object' && 'get' in registry)
    return new FixedIds(registry, { schemas, table: new SchemaTable(), reread: () => Promise.resolve([]) })
  const reread = () => readRows(connection, names.schemas)
  const ids = new LogSchemas(new RegistryClient(registry), { schemas, table: new SchemaTable(await reread()), reread })
  let reported = false
  await Promise.all(
    Object.keys(schemas).map((schema) =>
      ids.idOf(schema).catch((cause: unknown) => {
        if (cause instanceof InstarError && !cause.retryable) throw cause
        if (!reported)
          logLine?.(`the schema registry does not respond (${messageOf(cause)}); using the schema ids on the log`)
        reported = true
        ids.useLogId(schema)
      }),
    ),
  )
  return ids
}
