/** Opens the event log on Kafka, after checking its topics and schemas. */
import { InstarError } from '@instar/events/errors'
import { partitionCounts } from '../partition.ts'
import { kafkaError, KafkaConnection } from './client.ts'
import { KafkaEventLog, type KafkaLog } from './log.ts'
import { checkPlacement, checkTopics, openSchemas } from './open-checks.ts'
import { DEFAULT_RETRY_MS, type KafkaOptions } from './options.ts'
import { withRetries } from './retry.ts'
import { throwAccessError } from './setup.ts'
import { topicNames } from './topics.ts'

/**
 * Throws `partition_count_changed`, `log_truncated`, `not_set_up` if `setup` has not run, `registry_differs` if the
 * registry has other schema ids than the log, `kafka_refused`, or `log_unavailable` if no broker responds within
 * `retryMs`.
 */
export const openKafkaLog = async (options: KafkaOptions): Promise<KafkaLog> => {
  // Refuses impossible numbers before it connects.
  partitionCounts(options.partitions)
  const names = topicNames(options.prefix)
  const connection = new KafkaConnection(options, names.all)
  try {
    const retryMs = options.retryMs ?? DEFAULT_RETRY_MS
    const never = new AbortController().signal
    const { counts, first } = await withRetries(
      'opening the log',
      () =>
        connection
          .use(async (cluster) => {
            const found = await checkTopics(cluster, names, options.partitions)
            if (!options.anyPlacement) await checkPlacement(cluster, names, found)
            return found
          })
          .catch(throwAccessError),
      retryMs,
      never,
    )
    const schemas = await withRetries('reading schemas', () => openSchemas(options, names, connection), retryMs, never)
    const log = new KafkaEventLog(options, counts, names, schemas, connection)
    try {
      for (const [topic, offsets] of first) await log.cuts.requireHeld(topic, offsets)
    } catch (cause) {
      await log.close()
      throw cause
    }
    return log
  } catch (cause) {
    connection.close()
    throw kafkaError(cause) === 'UNKNOWN_TOPIC_OR_PARTITION'
      ? new InstarError('not_set_up', 'Kafka does not have the topics of the log; run `instar setup`', {}, { cause })
      : cause
  }
}
