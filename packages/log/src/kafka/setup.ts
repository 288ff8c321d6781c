/** The `setup` job on Kafka. Idempotent; several processes may run it concurrently. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import { defaultCounts, newLogCounts } from '../partition.ts'
import { accessError, kafkaError } from './client.ts'
import { kafkajsSecurity, type Security } from './security.ts'
import { topicNames, topicSettings } from './topics.ts'
import { withRetries } from './retry.ts'

type SetupOptions = {
  brokers: readonly string[]
  clientId?: string
  /** Default: no TLS and no authentication. */
  security?: Security
  /** Partition counts that differ from `newLogCounts`. They cannot be changed later. */
  partitions?: Partial<Record<Topic, number>>
  /** Replication factor. Default 1. */
  replication?: number
  prefix?: string
  /** Milliseconds for which requests are retried. Default 60,000. */
  retryMs?: number
}

export type SetupReport = {
  /** The topics that were created. */
  created: string[]
  /** Settings of existing topics that differ from those of `topicSettings`. They are not changed. */
  differing: { topic: string; setting: string; is: string; should: string }[]
}

/** Kafka's resource type TOPIC. kafkajs's constant cannot be imported from an ES module. */
const TOPIC = 2

/** Creates missing topics. Throws `partition_count_changed`, `kafka_refused`, or `log_unavailable`. */
export const setupKafka = async (options: SetupOptions): Promise<SetupReport> => {
  const { brokers, clientId = 'setup', security, replication = 1, prefix, retryMs = 60_000 } = options
  const counts = newLogCounts(replication, options.partitions)
  const names = topicNames(prefix)
  const partitionsByName = new Map<string, number>([
    ...TOPICS.flatMap(
      (topic) =>
        [
          [names.of(topic), counts[topic]],
          [names.deadLetters(topic), 1],
        ] as const,
    ),
    [names.schemas, 1],
  ])
  /** Of a topic that exists: its own number, where it is a default one and none is configured. */
  const allowed = new Map<string, readonly number[]>(
    TOPICS.filter((topic) => options.partitions?.[topic] === undefined).map((topic) => [
      names.of(topic),
      defaultCounts(topic),
    ]),
  )
  const settings = topicSettings(replication)
  return withAdmin({ brokers, clientId, ...(security ? { security } : {}) }, retryMs, async (admin) => {
    const never = new AbortController().signal
    const existing = await withRetries('listing topics', () => admin.listTopics(), retryMs, never)
    const created = [...partitionsByName.keys()].filter((topic) => !existing.includes(topic))
    if (created.length > 0) {
      const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
      const topics = created.map((topic) => ({
        topic,
        numPartitions: partitionsByName.get(topic)!,
        replicationFactor: replication,
        configEntries,
      }))
      await withRetries('creating topics', () => createTopics(admin, topics), retryMs, never)
    }
    await withRetries('waiting for leaders', () => checkTopics(admin, partitionsByName, allowed), retryMs, never)
    return {
      created,
      differing: await withRetries(
        'reading settings',
        () => differences(admin, [...partitionsByName.keys()], settings),
        retryMs,
        never,
      ),
    }
  })
}

/**
 * Runs `use` with kafkajs's admin client. Throws `log_unavailable` if no broker responds within `retryMs`,
 * `kafka_refused`.
 */
export const withAdmin = async <T>(
  { brokers, clientId, security }: AdminConnection,
  retryMs: number,
  use: (admin: Admin) => Promise<T>,
): Promise<T> => {
  const retry = { retries: 3, initialRetryTime: 100, maxRetryTime: 1000, factor: 0.2, multiplier: 2 }
  const kafka = new Kafka({
    brokers: [...brokers],
    clientId,
    connectionTimeout: 5_000,
    requestTimeout: 30_000,
    logLevel: logLevel.NOTHING,
    retry,
    ...kafkajsSecurity(security),
  })
  const admin = kafka.admin({ retry })
  try {
    await withRetries(
      'connecting',
      () => admin.connect().catch(throwAccessError),
      retryMs,
      new AbortController().signal,
    )
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

type AdminConnection = { brokers: readonly string[]; clientId: string; security?: Security }

/** Throws `kafka_refused` for an authentication or TLS error, else the error itself. */
export const throwAccessError = (cause: unknown): never => {
  throw accessDenied(cause) ?? cause
}

const accessDenied = (cause: unknown): InstarError | undefined => {
  const why = accessError(cause)
  return why === undefined ? undefined : new InstarError('kafka_refused', `Kafka: ${why}`, {}, { cause })
}

/**
 * Tolerates topics that another process creates meanwhile. kafkajs's wait for leaders is not used: it fails on a busy
 * broker.
 */
const createTopics = async (admin: Admin, topics: Parameters<Admin['createTopics']>[0]['topics']): Promise<void> => {
  try {
    await admin.createTopics({ topics, waitForLeaders: false, timeout: 30_000 })
  } catch (cause) {
    const errors =
      cause instanceof AggregateError || (cause instanceof Error && 'errors' in cause)
        ? ((cause as AggregateError).errors as unknown[])
        : [cause]
    if (!errors.every((error) => kafkaError(error) === 'TOPIC_ALREADY_EXISTS')) throw cause
  }
}

const checkTopics = async (
  admin: Admin,
  partitionsByName: ReadonlyMap<string, number>,
  allowed: ReadonlyMap<string, readonly number[]>,
): Promise<void> => {
  const { topics } = await admin.fetchTopicMetadata({ topics: [...partitionsByName.keys()] })
  for (const { name, partitions } of topics) {
    const configured = partitionsByName.get(name)!
    if (partitions.length !== configured && !allowed.get(name)?.includes(partitions.length))
      throw new InstarError(
        'partition_count_changed',
        `topic ${name} has ${partitions.length} partitions, but ${configured} are configured`,
        { topic: name, stored: partitions.length, configured },
      )
    const leaderless = partitions.find(({ leader }) => leader < 0)
    if (leaderless) throw new Error(`${name} ${leaderless.partitionId} has no leader yet`)
  }
}

/** The settings of topics that differ from `settings`. */
export const differences = async (
  admin: Admin,
  topics: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<SetupReport['differing']> => {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: topics.map((name) => ({ type: TOPIC, name, configNames: Object.keys(settings) })),
  })
  return resources.flatMap(({ resourceName, configEntries }) =>
    configEntries.flatMap(({ configName, configValue }) => {
      const should = settings[configName]
      return should === undefined || should === configValue
        ? []
        : [{ topic: resourceName, setting: configName, is: configValue, should }]
    }),
  )
}
