/** What `instar doctor` looks at where the log is on Kafka. */
import { recordId } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { groupLags, type DeadLetter, type KafkaLog } from '@instar/log/kafka/index'
import { PROJECTED, type DatabaseFound } from '@instar/projections'
import { gatewayUrl } from '../config.ts'
import { brokersFound, groupsFound, settingsFound, topicsFound } from './cluster.ts'
import { clocksFound, type Told } from './clocks.ts'
import { lagFound, lagOf, migrationsFound, waitingFound, type Lag } from './database.ts'
import { deadLettersFound } from './dead-letters.ts'
import { faultOf, fine, unsure, type Finding, type Look } from './finding.ts'
import { gatewaysFound } from './gateways.ts'
import { readRecords } from './records.ts'
import { registryFound } from './registry.ts'
import type { Stack } from './stack.ts'

const NO_KAFKA =
  'Start the brokers (`docker compose up -d kafka`), or correct INSTAR_LOG; a broker tells clients to come to its advertised.listeners, which must be reachable from here.'
const NO_REGISTRY =
  'Start it (`docker compose up -d registry`), or correct INSTAR_REGISTRY (Apicurio: …/apis/ccompat/v7). Services go on by what the log says meanwhile; nothing is lost.'
const NO_DATABASE =
  'Start it (`docker compose up -d postgres`), correct DATABASE_URL, or run `instar setup`, which makes the database. Projections wait for it meanwhile; nothing is lost.'

/** What `use` finds with a part of the stack; unsure where that part did not answer, which its own look tells. */
const given = async <T>(
  part: () => Promise<T>,
  use: (value: T) => readonly Finding[] | Promise<readonly Finding[]>,
  missing: string,
): Promise<readonly Finding[]> => {
  const value = await part().then(
    (found) => ({ found }),
    () => null,
  )
  return value ? use(value.found) : [unsure(missing)]
}

const own = async <T>(
  part: () => Promise<T>,
  use: (value: T) => readonly Finding[],
  todo: string,
): Promise<readonly Finding[]> =>
  part().then(use, (error: unknown) => [
    faultOf(error, error instanceof InstarError && error.code === 'bad_request' ? undefined : todo),
  ])

/** The log, once all that it takes to read it is known to be there. */
const readable =
  (stack: Stack): (() => Promise<KafkaLog>) =>
  async () => {
    const [{ missing }] = await Promise.all([stack.cluster(), stack.registry()])
    if (missing.length > 0) throw new InstarError('not_set_up', 'topics are missing')
    return stack.log()
  }

const UNREADABLE = 'cannot be read now: see Kafka, topics and registry above'

export const kafkaLooks = (stack: Stack): Record<'before' | 'after', readonly Look[]> => ({
  before: [
    { name: 'Kafka', of: () => own(stack.cluster, brokersFound, NO_KAFKA) },
    {
      name: 'topics',
      of: (config) =>
        given(
          stack.cluster,
          (cluster) => topicsFound(cluster, config.replication, config.partitions),
          'Kafka does not answer',
        ),
    },
    {
      name: 'settings',
      of: () =>
        given(
          stack.cluster,
          ({ differing }) => settingsFound(differing, stack.brokers.join(',')),
          'Kafka does not answer',
        ),
    },
    {
      name: 'registry',
      of: (config) => own(stack.registry, (found) => registryFound(found, String(config.registry)), NO_REGISTRY),
    },
    { name: 'log', of: () => given(readable(stack), recordsFound(stack), UNREADABLE) },
    { name: 'dead letters', of: () => given(readable(stack), deadFound(stack), UNREADABLE) },
  ],
  after: [
    {
      name: 'PostgreSQL',
      of: () =>
        own(
          stack.database,
          (found) => [
            found === null
              ? unsure(
                  'DATABASE_URL is not set: nothing projects, `instar sql` has nothing to ask',
                  'Set DATABASE_URL to postgres://user:password@host:port/database.',
                )
              : fine(`${found.version}, by DATABASE_URL`),
          ],
          NO_DATABASE,
        ),
    },
    { name: 'migrations', of: () => withDatabase(stack, ({ migrations }) => migrationsFound(migrations)) },
    {
      name: 'projections',
      of: () =>
        withDatabase(stack, (found) => given(readable(stack), (log) => projectionsFound(log, found), UNREADABLE)),
    },
    {
      name: 'services',
      of: () =>
        withDatabase(stack, ({ migrations, waiting }) =>
          migrations.state === 'current'
            ? waitingFound(waiting, Date.now())
            : [unsure('told by the tables, which are not there')],
        ),
    },
    {
      name: 'groups',
      of: () =>
        given(
          stack.cluster,
          async ({ missing }) =>
            missing.length > 0 ? [unsure('topics are missing')] : groupsFound(await groupLags(await stack.access())),
          'Kafka does not answer',
        ),
    },
    { name: 'gateways', of: async (config) => gatewaysFound(await stack.gateways(), gatewayUrl(config)) },
    { name: 'clocks', of: () => clocks(stack) },
  ],
})

const withDatabase = (
  stack: Stack,
  use: (found: DatabaseFound) => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> =>
  given(
    stack.database,
    (found) => (found === null ? [unsure('DATABASE_URL is not set')] : use(found)),
    'PostgreSQL does not answer',
  )

const recordsFound =
  (stack: Stack) =>
  async (log: KafkaLog): Promise<readonly Finding[]> => {
    try {
      const { said, unreadable } = await readRecords(log)
      stack.unreadable.push(...unreadable)
      return [fine(said)]
    } catch (error) {
      return [faultOf(error)]
    }
  }

/** Those that a reader has put aside, and those that were met just now. */
const deadFound =
  (stack: Stack) =>
  async (log: KafkaLog): Promise<readonly Finding[]> => {
    const letters: Pick<DeadLetter, 'topic' | 'partition' | 'offset' | 'reason'>[] = (
      await Promise.all(TOPICS.map((topic) => log.deadLetters(topic)))
    ).flat()
    const known = new Set(letters.map(({ topic, partition, offset }) => `${topic} ${partition}@${offset}`))
    return deadLettersFound([
      ...letters,
      ...stack.unreadable.filter(({ topic, partition, offset }) => !known.has(`${topic} ${partition}@${offset}`)),
    ])
  }

const projectionsFound = async (log: KafkaLog, { migrations, marks }: DatabaseFound): Promise<readonly Finding[]> => {
  if (migrations.state !== 'current') return [unsure('told by the tables, which are not there')]
  const ends = await log.ends(PROJECTED)
  const lags: Lag[] = []
  for (const topic of PROJECTED) {
    for (const [text, end] of Object.entries(ends[topic] ?? {})) {
      const partition = Number(text)
      const mark = marks.find((one) => one.topic === topic && one.partition === partition) ?? {
        topic,
        partition,
        next: 0,
        last: '',
        current: true,
      }
      const [first, before] = await Promise.all([
        mark.next < end ? log.at({ topic, partition, offset: mark.next }) : undefined,
        mark.next > 0 ? log.at({ topic, partition, offset: mark.next - 1 }) : undefined,
      ])
      lags.push(lagOf(mark, end, first, before ? recordId(before) : null))
    }
  }
  return lagFound(lags, Date.now())
}

const clocks = async (stack: Stack): Promise<readonly Finding[]> => {
  const [database, registry, gateways, newest] = await Promise.all([
    stack.database().catch(() => null),
    stack.registry().catch(() => null),
    stack.gateways(),
    readable(stack)().then(newestRecord, () => null),
  ])
  const told: Told[] = [
    ...(database ? [{ who: 'PostgreSQL', ...database.clock }] : []),
    ...(registry && registry.clock.theirs !== null
      ? [{ who: 'the registry', ...registry.clock, theirs: registry.clock.theirs, resolution: 1000 }]
      : []),
    ...gateways.flatMap(({ clock }) => clock ?? []),
    // It was written before we asked: only a time to come tells anything.
    ...(newest
      ? [
          {
            who: `who wrote the newest record (${newest.topic})`,
            before: 0,
            theirs: newest.timestamp,
            after: Date.now(),
          },
        ]
      : []),
  ]
  return told.length > 0 ? clocksFound(told) : [unsure('nothing that tells the time answers')]
}

/** By its own time, of the last of each partition. */
const newestRecord = async (log: KafkaLog): Promise<{ topic: string; timestamp: number } | null> => {
  const ends = await log.ends(TOPICS)
  const last = await Promise.all(
    TOPICS.flatMap((topic) =>
      Object.entries(ends[topic] ?? {})
        .filter(([, end]) => end > 0)
        .map(([partition, end]) => log.at({ topic, partition: Number(partition), offset: end - 1 })),
    ),
  )
  return last.reduce<{ topic: string; timestamp: number } | null>(
    (newest, record) => (record && (newest === null || record.timestamp > newest.timestamp) ? record : newest),
    null,
  )
}
