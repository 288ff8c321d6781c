/** What a log on Kafka is opened with. */
import type { Topic } from '@instar/events/flow'
import type { ClientOptions } from './client.ts'
import type { QueueLimits } from './runs.ts'
import type { RegistryAccess } from './registry-client.ts'

export type KafkaOptions = ClientOptions & {
  /** The registry (its Confluent-compatible address), or ids that were agreed upon elsewhere. */
  registry: string | RegistryAccess | ReadonlyMap<string, number>
  /** Schema name → Avro JSON: what may be appended, and is known by name when read. */
  schemas: Readonly<Record<string, string>>
  /** Where they differ from the flow table's. */
  partitions?: Partial<Record<Topic, number>>
  /** Stands before the names of topics and groups. */
  prefix?: string
  /** How much may wait to be written before `log_full`. Default: 16,384 records, 64 MiB. */
  queue?: Partial<QueueLimits>
  /** Timeout of requests to the brokers and of `close`, ms. Default 30,000. Appends wait without a limit. */
  patience?: number
  /** Session timeout, ms: other processes take over a process's partitions after it. Default 6,000. */
  session?: number
  /** Called with a line when Kafka or the registry stops answering and when it answers again. */
  say?(line: string): void
}
