/** What the `setup` job does on Kafka; safe to run again, by several at once. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import { partitionCounts } from '../partition.ts'
import { accessRefused, kafkaError } from './client.ts'
import { kafkajsSecurity, type Security } from './security.ts'
import { topicNames, topicSettings } from './topics.ts'
import { patiently } from './wait.ts'

type SetupOptions = {
  brokers: readonly string[]
  clientId?: string
  /** Default: neither TLS nor a name. */
  security?: Security
  /** Where they differ from the flow table's. For ever. */
  partitions?: Partial<Record<Topic, number>>
  /** Copies of each record. Default 1. */
  replication?: number
  prefix?: string
  /** Milliseconds to wait for the brokers. Default 60,000. */
  patience?: number
}

export type SetupReport = {
  /** Topics that were not seen before. */
  created: string[]
  /** Settings that differ from ours on topics that another program created; they are not changed. */
  differing: { topic: string; setting: string; is: string; should: string }[]
}

/** Kafka's number for this kind of resource; kafkajs's own name for it cannot be imported from a module. */
const TOPIC = 2

/**
 * Makes the topics that are missing. Throws `partition_count_changed`, or `log_unavailable` when the brokers do not
 * answer.
 */
export const setupKafka = async (options: SetupOptions): Promise<SetupReport> => {
  const { brokers, clientId = 'setup', security, replication = 1, prefix, patience = 60_000 } = options
  const counts = partitionCounts(options.partitions)
  const names = topicNames(prefix)
  const wanted = new Map<string, number>([
    ...TOPICS.flatMap(
      (topic) =>
        [
          [names.of(topic), counts[topic]],
          [names.deadLetters(topic), 1],
        ] as const,
    ),
    [names.schemas, 1],
  ])
  const settings = topicSettings(replication)
  return withAdmin({ brokers, clientId, ...(security ? { security } : {}) }, patience, async (admin) => {
    const never = new AbortController().signal
    const there = await patiently('listing topics', () => admin.listTopics(), patience, never)
    const created = [...wanted.keys()].filter((topic) => !there.includes(topic))
    if (created.length > 0) {
      const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
      const topics = created.map((topic) => ({
        topic,
        numPartitions: wanted.get(topic)!,
        replicationFactor: replication,
        configEntries,
      }))
      await patiently('making topics', () => createTopics(admin, topics), patience, never)
    }
    await patiently('waiting for leaders', () => checkTopics(admin, wanted), patience, never)
    return {
      created,
      differing: await patiently(
        'reading settings',
        () => differences(admin, [...wanted.keys()], settings),
        patience,
        never,
      ),
    }
  })
}

/** Throws `log_unavailable` when no broker answers within `patience` ms, `kafka_refused`. */
export const withAdmin = async <T>(
  { brokers, clientId, security }: AdminConnection,
  patience: number,
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
    await patiently('connecting', () => admin.connect().catch(refuse), patience, new AbortController().signal)
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

type AdminConnection = { brokers: readonly string[]; clientId: string; security?: Security }

const refuse = (cause: unknown): never => {
  throw refusal(cause) ?? cause
}

/** `kafka_refused`, if that is what it is. */
export const refusal = (cause: unknown): InstarError | undefined => {
  const why = accessRefused(cause)
  return why === undefined ? undefined : new InstarError('kafka_refused', `Kafka: ${why}`, {}, { cause })
}

/** Another one may make them meanwhile. kafkajs's own wait for leaders rejects on a busy broker, so it is not used. */
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

const checkTopics = async (admin: Admin, wanted: ReadonlyMap<string, number>): Promise<void> => {
  const { topics } = await admin.fetchTopicMetadata({ topics: [...wanted.keys()] })
  for (const { name, partitions } of topics) {
    const configured = wanted.get(name)!
    if (partitions.length !== configured)
      throw new InstarError(
        'partition_count_changed',
        `${name} has ${partitions.length} partitions, ${configured} are configured`,
        { topic: name, stored: partitions.length, configured },
      )
    const leaderless = partitions.find(({ leader }) => leader < 0)
    if (leaderless) throw new Error(`${name} ${leaderless.partitionId} has no leader yet`)
  }
}

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
