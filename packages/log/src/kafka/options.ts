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
  /** Milliseconds after which a question to the brokers, or what waits at `close`, is given up. Default 30,000. Appends wait without end. */
  patience?: number
  /** Milliseconds without a sign of life after which others take over a process's share of the work. Default 6,000. */
  session?: number
  /** Told when Kafka or the registry goes away and when it is back. */
  say?(line: string): void
}
