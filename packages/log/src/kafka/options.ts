/** The options of a log on Kafka. */
import type { Topic } from '@instar/events/flow'
import type { ClientOptions } from './client.ts'
import type { QueueLimits } from './producer-batch.ts'
import type { RegistryAccess } from './registry-client.ts'

export type KafkaOptions = ClientOptions & {
  /** The Confluent-compatible schema registry, or fixed ids of the schemas. */
  registry: string | RegistryAccess | ReadonlyMap<string, number>
  /** The schemas of this build: name → Avro JSON. Only records with one of them can be appended. */
  schemas: Readonly<Record<string, string>>
  /** Partition counts that `setup` does not choose by itself; of other topics the log's own, if it is a default one. */
  partitions?: Partial<Record<Topic, number>>
  /** Opens the log also if partitions were added to it after records were written: a copy reads each partition. */
  anyPlacement?: boolean
  /** A prefix of the names of topics and groups. */
  prefix?: string
  /**
   * Limits of the records waiting to be written; beyond them `append` throws `log_full`. Default: 16,384 records, 64
   * MiB.
   */
  queue?: Partial<QueueLimits>
  /**
   * Milliseconds for which requests are retried and `close` waits. Default 30,000. Appends are retried without limit.
   */
  retryMs?: number
  /** Session timeout of group members, ms: after it a process's partitions are assigned to others. Default 6,000. */
  session?: number
  /** Called with a message when Kafka or the registry becomes unreachable and when it is reachable again. */
  logLine?(line: string): void
}

export const DEFAULT_RETRY_MS = 30_000
