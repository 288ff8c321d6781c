/** Checks before a log on Kafka opens: the topics, that none is truncated, and the schemas. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import type { PartitionCounts } from '../partition.ts'
import { messageOf, type Cluster, type KafkaConnection } from './client.ts'
import { EARLIEST, offsetsAt } from './fetch.ts'
import type { KafkaOptions } from './options.ts'
import { RegistryClient } from './registry-client.ts'
import { readRows, SchemaTable } from './schema-rows.ts'
import { FixedIds, LogSchemas, type SchemaIds } from './schemas.ts'
import type { TopicNames } from './topics.ts'

/** Throws `partition_count_changed`, `log_truncated`. */
export const checkTopics = async (cluster: Cluster, names: TopicNames, counts: PartitionCounts): Promise<void> => {
  for (const topic of TOPICS) {
    const stored = cluster.findTopicPartitionMetadata(names.of(topic)).length
    if (stored !== counts[topic])
      throw new InstarError(
        'partition_count_changed',
        `${topic} has ${stored} partitions on this log, ${counts[topic]} are configured`,
        { topic, stored, configured: counts[topic] },
      )
  }
  const places = TOPICS.flatMap((topic) =>
    Array.from({ length: counts[topic] }, (_, partition) => ({ topic: names.of(topic), partition })),
  )
  for (const { topic, partition, offset } of await offsetsAt(
    cluster,
    [...places, { topic: names.schemas, partition: 0 }],
    EARLIEST,
  )) {
    if (offset > 0) throw truncated(topic, partition, offset)
  }
}

/**
 * Records are never deleted: a reader of a truncated topic would compute another history than one that has read all
 * of it.
 */
export const truncated = (topic: string, partition: number, first: number): InstarError =>
  new InstarError(
    'log_truncated',
    `${topic} ${partition} begins at ${first}: the ${first} records before it are gone`,
    { topic, partition, first },
  )

/** Throws `registry_differs` or `not_set_up`; reports a registry that does not answer, and waits for it. */
export const openSchemas = async (
  options: KafkaOptions,
  names: TopicNames,
  connection: KafkaConnection,
): Promise<SchemaIds> => {
  const { registry, schemas, say } = options
  if (typeof registry === 'object' && 'get' in registry)
    return new FixedIds(registry, { schemas, table: new SchemaTable(), reread: () => Promise.resolve([]) })
  const reread = () => readRows(connection, names.schemas)
  const ids = new LogSchemas(new RegistryClient(registry), { schemas, table: new SchemaTable(await reread()), reread })
  let told = false
  await Promise.all(
    Object.keys(schemas).map((schema) =>
      ids.idOf(schema).catch((cause: unknown) => {
        if (cause instanceof InstarError && !cause.retryable) throw cause
        if (!told)
          say?.(`the schema registry does not answer (${messageOf(cause)}); what the log says of it holds meanwhile`)
        told = true
        ids.trust(schema)
      }),
    ),
  )
  return ids
}
