/** Read-only inspection of a cluster, without opening a log. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { Admin } from 'kafkajs'
import { kafkaError, KafkaConnection, type ClientOptions } from './client.ts'
import { LATEST, offsetsAt } from './fetch.ts'
import { committedOf } from './groups.ts'
import { readRows, type SchemaRow } from './schema-rows.ts'
import { differences, withAdmin, type SetupReport } from './setup.ts'
import { topicNames, topicSettings } from './topics.ts'
import { patiently } from './wait.ts'

export type InspectOptions = ClientOptions & {
  prefix?: string
  /** Milliseconds to wait for the brokers. Default 10,000. */
  patience?: number
}

const PATIENCE = 10_000
const ask = <T>({ patience = PATIENCE }: InspectOptions, what: string, work: () => Promise<T>): Promise<T> =>
  patiently(what, work, patience, new AbortController().signal)

/** How many partitions each topic of the log has there. Throws `not_set_up`, or `log_unavailable`. */
export const storedPartitions = async (options: InspectOptions): Promise<Record<Topic, number>> =>
  withAdmin(options, options.patience ?? PATIENCE, async (admin) => {
    const names = topicNames(options.prefix)
    const there = await ask(options, 'listing topics', () => admin.listTopics())
    const missing = TOPICS.map(names.of).filter((name) => !there.includes(name))
    if (missing.length > 0)
      throw new InstarError('not_set_up', `Kafka does not hold ${missing.join(', ')}`, { missing })
    const found = await ask(options, 'looking at the topics', () => topicsOf(admin, TOPICS.map(names.of)))
    return Object.fromEntries(
      TOPICS.map((topic) => [topic, found.find(({ name }) => name === names.of(topic))!.partitions]),
    ) as Record<Topic, number>
  })

export type TopicFound = {
  /** Kafka's own name. */
  name: string
  partitions: number
  /** Copies of the partition that has the fewest. */
  replicas: number
  /** Partitions without a leader, and with fewer copies in step than there are. */
  leaderless: number
  behind: number
}

export type ClusterFound = {
  clusterId: string
  brokers: { id: number; address: string; controller: boolean }[]
  /** The oldest that all brokers can be, by the requests that they answer. */
  kafka: '4.0 or newer' | 'older than 4.0'
  topics: TopicFound[]
  missing: string[]
  /** Settings of our topics that are not ours, for as many copies as each topic has. */
  differing: SetupReport['differing']
}

/** Kafka's number of the fetch request, whose first four versions 4.0 dropped. */
const FETCH = 1

/** Throws `log_unavailable`. */
export const inspectCluster = async (options: InspectOptions): Promise<ClusterFound> =>
  withAdmin(options, options.patience ?? PATIENCE, async (admin) => {
    const wanted = topicNames(options.prefix).all
    const [{ brokers, controller, clusterId }, there] = await ask(options, 'looking at the brokers', () =>
      Promise.all([admin.describeCluster(), admin.listTopics()]),
    )
    const ours = wanted.filter((name) => there.includes(name))
    const topics = ours.length === 0 ? [] : await ask(options, 'looking at the topics', () => topicsOf(admin, ours))
    const byCopies = Map.groupBy(topics, ({ replicas }) => replicas)
    const differing = await ask(options, 'reading settings', () =>
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
      kafka: await oldest(
        options,
        brokers.map(({ nodeId }) => String(nodeId)),
      ),
      topics,
      differing: differing.flat(),
      missing: wanted.filter((name) => !there.includes(name)),
      brokers: brokers.map(({ nodeId, host, port }) => ({
        id: nodeId,
        address: `${host}:${port}`,
        controller: nodeId === controller,
      })),
    }
  })

const topicsOf = async (admin: Admin, names: string[]): Promise<TopicFound[]> => {
  const { topics } = await admin.fetchTopicMetadata({ topics: names })
  return topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.length,
    replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
    leaderless: partitions.filter(({ leader }) => leader < 0).length,
    behind: partitions.filter(({ replicas, isr }) => isr.length < replicas.length).length,
  }))
}

/** Asks every listed broker, since one that does not answer is a fault. */
const oldest = async (options: InspectOptions, brokers: readonly string[]): Promise<ClusterFound['kafka']> => {
  const connection = new KafkaConnection(options, [])
  try {
    const first = await ask(options, 'asking each broker', () =>
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

/** Lag in records of the groups that commit offsets of our topics. Groups that only divide work commit none. */
export const groupLags = async (options: InspectOptions): Promise<GroupLag[]> =>
  withAdmin(options, options.patience ?? PATIENCE, async (admin) => {
    const names = topicNames(options.prefix)
    const counts = await storedPartitions(options)
    const connection = new KafkaConnection(options, names.all)
    try {
      return await ask(options, 'looking at the groups', async () => {
        const { groups } = await admin.listGroups()
        return connection.use(async (cluster) => {
          const places = TOPICS.flatMap((topic) =>
            Array.from({ length: counts[topic] }, (_, partition) => ({ topic: names.of(topic), partition })),
          )
          const ends = await offsetsAt(cluster, places, LATEST)
          const found = await Promise.all(
            groups.map(async ({ groupId }) => ({ groupId, committed: await committedOf(cluster, groupId, places) })),
          )
          return found.flatMap(({ groupId, committed }) =>
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
    return await ask(options, 'reading schemas', () =>
      readRows(connection, schemas).catch((cause: unknown) => {
        throw kafkaError(cause) === 'UNKNOWN_TOPIC_OR_PARTITION'
          ? new InstarError('not_set_up', `Kafka does not hold ${schemas}`, {}, { cause })
          : cause
      }),
    )
  } finally {
    connection.close()
  }
}
