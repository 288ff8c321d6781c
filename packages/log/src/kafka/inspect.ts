/** Read-only inspection of a Kafka cluster, without opening a log. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { Admin } from 'kafkajs'
import { kafkaError, KafkaConnection, type ClientOptions } from './client.ts'
import { LATEST, offsetsAt } from './fetch.ts'
import { committedOffsets } from './group-offsets.ts'
import { readRows, type SchemaRow } from './schema-rows.ts'
import { differences, withAdmin, type SetupReport } from './setup.ts'
import { topicNames, topicSettings } from './topics.ts'
import { withRetries } from './retry.ts'

export type InspectOptions = ClientOptions & {
  prefix?: string
  /** Milliseconds for which requests are retried. Default 10,000. */
  retryMs?: number
}

const DEFAULT_RETRY_MS = 10_000
const request = <T>({ retryMs = DEFAULT_RETRY_MS }: InspectOptions, what: string, work: () => Promise<T>): Promise<T> =>
  withRetries(what, work, retryMs, new AbortController().signal)

/** The number of partitions of each topic of the log. Throws `not_set_up` or `log_unavailable`. */
export const storedPartitions = async (options: InspectOptions): Promise<Record<Topic, number>> =>
  withAdmin(options, options.retryMs ?? DEFAULT_RETRY_MS, async (admin) => {
    const names = topicNames(options.prefix)
    const existing = await request(options, 'listing topics', () => admin.listTopics())
    const missing = TOPICS.map(names.of).filter((name) => !existing.includes(name))
    if (missing.length > 0)
      throw new InstarError('not_set_up', `Kafka does not have ${missing.join(', ')}`, { missing })
    const topics = await request(options, 'reading topic metadata', () => topicsOf(admin, TOPICS.map(names.of)))
    return Object.fromEntries(
      TOPICS.map((topic) => [topic, topics.find(({ name }) => name === names.of(topic))!.partitions]),
    ) as Record<Topic, number>
  })

export type TopicState = {
  /** Kafka's name of the topic, with its prefix. */
  name: string
  partitions: number
  /** The smallest number of replicas of a partition. */
  replicas: number
  /** Number of partitions without a leader. */
  leaderless: number
  /** Number of partitions with fewer in-sync replicas than replicas. */
  behind: number
}

export type ClusterState = {
  clusterId: string
  brokers: { id: number; address: string; controller: boolean }[]
  /** The version of the oldest broker, by the requests that it supports. */
  kafka: '4.0 or newer' | 'older than 4.0'
  topics: TopicState[]
  missing: string[]
  /** Settings of the log's topics that differ from those that `setup` makes for their number of replicas. */
  differing: SetupReport['differing']
}

/** The API key of the fetch request. Kafka 4.0 removed its versions 0 to 3. */
const FETCH = 1

/** Throws `log_unavailable`. */
export const inspectCluster = async (options: InspectOptions): Promise<ClusterState> =>
  withAdmin(options, options.retryMs ?? DEFAULT_RETRY_MS, async (admin) => {
    const names = topicNames(options.prefix).all
    const [{ brokers, controller, clusterId }, existing] = await request(options, 'reading cluster metadata', () =>
      Promise.all([admin.describeCluster(), admin.listTopics()]),
    )
    const presentTopics = names.filter((name) => existing.includes(name))
    const topics =
      presentTopics.length === 0
        ? []
        : await request(options, 'reading topic metadata', () => topicsOf(admin, presentTopics))
    const byCopies = Map.groupBy(topics, ({ replicas }) => replicas)
    const differing = await request(options, 'reading settings', () =>
      Promise.all(
        [...byCopies].map(([replicas, of]) =>
          differences(
            admin,
            of.map(({ name }) => name),
            topicSettings(replicas),
          ),
        ),
      ),
    )
    return {
      clusterId,
      kafka: await oldestVersion(
        options,
        brokers.map(({ nodeId }) => String(nodeId)),
      ),
      topics,
      differing: differing.flat(),
      missing: names.filter((name) => !existing.includes(name)),
      brokers: brokers.map(({ nodeId, host, port }) => ({
        id: nodeId,
        address: `${host}:${port}`,
        controller: nodeId === controller,
      })),
    }
  })

const topicsOf = async (admin: Admin, names: string[]): Promise<TopicState[]> => {
  const { topics } = await admin.fetchTopicMetadata({ topics: names })
  return topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.length,
    replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
    leaderless: partitions.filter(({ leader }) => leader < 0).length,
    behind: partitions.filter(({ replicas, isr }) => isr.length < replicas.length).length,
  }))
}

/** Sends a request to every broker, so that an unreachable one is an error. */
const oldestVersion = async (options: InspectOptions, brokers: readonly string[]): Promise<ClusterState['kafka']> => {
  const connection = new KafkaConnection(options, [])
  try {
    const first = await request(options, 'reading API versions', () =>
      connection.use((cluster) =>
        Promise.all(
          brokers.map(async (nodeId) => {
            const broker = await cluster.findBroker({ nodeId })
            return (await broker.apiVersions())[FETCH]?.minVersion ?? 0
          }),
        ),
      ),
    )
    return first.every((version) => version >= 4) ? '4.0 or newer' : 'older than 4.0'
  } finally {
    connection.close()
  }
}

export type GroupLag = { group: string; topic: Topic; behind: number }

/** The lag in records of each group with committed offsets. Groups that only divide work have none. */
export const groupLags = async (options: InspectOptions): Promise<GroupLag[]> =>
  withAdmin(options, options.retryMs ?? DEFAULT_RETRY_MS, async (admin) => {
    const names = topicNames(options.prefix)
    const counts = await storedPartitions(options)
    const connection = new KafkaConnection(options, names.all)
    try {
      return await request(options, 'reading groups', async () => {
        const { groups } = await admin.listGroups()
        return connection.use(async (cluster) => {
          const partitions = TOPICS.flatMap((topic) =>
            Array.from({ length: counts[topic] }, (_, partition) => ({ topic: names.of(topic), partition })),
          )
          const ends = await offsetsAt(cluster, partitions, LATEST)
          const committedByGroup = await Promise.all(
            groups.map(async ({ groupId }) => ({
              groupId,
              committed: await committedOffsets(cluster, groupId, partitions),
            })),
          )
          return committedByGroup.flatMap(({ groupId, committed }) =>
            TOPICS.flatMap((topic) => {
              const of = committed.filter((one) => one.topic === names.of(topic))
              if (of.every(({ offset }) => offset === 0)) return []
              const behind = of.reduce(
                (sum, { partition, offset }) =>
                  sum +
                  Math.max(
                    0,
                    ends.find((end) => end.topic === names.of(topic) && end.partition === partition)!.offset - offset,
                  ),
                0,
              )
              return [{ group: groupId, topic, behind }]
            }),
          )
        })
      })
    } finally {
      connection.close()
    }
  })

/** The schemas on the log and their ids. Throws `not_set_up`, or `log_unavailable`. */
export const storedSchemas = async (options: InspectOptions): Promise<SchemaRow[]> => {
  const { schemas } = topicNames(options.prefix)
  const connection = new KafkaConnection(options, [schemas])
  try {
    return await request(options, 'reading schemas', () =>
      readRows(connection, schemas).catch((cause: unknown) => {
        throw kafkaError(cause) === 'UNKNOWN_TOPIC_OR_PARTITION'
          ? new InstarError('not_set_up', `Kafka does not have ${schemas}`, {}, { cause })
          : cause
      }),
    )
  } finally {
    connection.close()
  }
}
