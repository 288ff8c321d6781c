/** The checks of `instar doctor` for a log on Kafka. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { groupLags, type KafkaLog } from '@instar/log/kafka/index'
import type { DatabaseFound } from '@instar/projections'
import { migrationFindings, NO_TABLES, projectionFindings, workFindings } from '@instar/projections/findings'
import { gatewayUrl } from '../config.ts'
import { clockFindings, type ClockReading } from './clocks.ts'
import { brokerFindings, groupFindings, settingFindings, topicFindings } from './cluster.ts'
import { UnreadableRecords } from './dead-letters.ts'
import type { Deployment } from './deployment.ts'
import { errorFinding, ok, unsure, type Check, type Finding } from './finding.ts'
import { gatewayFindings } from './gateways.ts'
import { endedBy } from '../log-access.ts'
import { readRecords } from './records.ts'
import { registryFindings } from './registry.ts'

const KAFKA_TODO =
  'Start the brokers (`docker compose up -d kafka`), or correct INSTAR_LOG. Clients connect to the advertised.listeners of the brokers, which must be reachable from here.'
const REGISTRY_TODO =
  'Start it (`docker compose up -d registry`), or correct INSTAR_REGISTRY (Apicurio: …/apis/ccompat/v7). Until then the services use the schema ids on the log; nothing is lost.'
const DATABASE_TODO =
  'Start it (`docker compose up -d postgres`), correct DATABASE_URL, or run `instar setup`, which creates the database. Until then the projections wait; nothing is lost.'
const LOG_UNREADABLE = 'the log cannot be read; see Kafka, topics and registry'
const NO_KAFKA = 'Kafka does not answer'

/** The finding of a part. An error has the todo of the part, unless it is `bad_request`. */
const checkPart = async <T>(
  part: () => Promise<T>,
  findings: (value: T) => readonly Finding[],
  todo: string,
): Promise<readonly Finding[]> =>
  part().then(findings, (error: unknown) => [
    errorFinding(error, error instanceof InstarError && error.code === 'bad_request' ? undefined : todo),
  ])

/** A finding that depends on a part: `unsure` with `reason` if the part has an error, which its own check reports. */
const checkWith = async <T>(
  part: () => Promise<T>,
  findings: (value: T) => readonly Finding[] | Promise<readonly Finding[]>,
  reason: string,
): Promise<readonly Finding[]> => {
  const available = await part().then(
    (value) => ({ value }),
    () => null,
  )
  return available ? findings(available.value) : [unsure(reason)]
}

/** Opens the log if the topics and the registry are available. */
const readableLog =
  (deployment: Deployment): (() => Promise<KafkaLog>) =>
  async () => {
    const [{ missing }] = await Promise.all([deployment.cluster(), deployment.registry()])
    if (missing.length > 0) throw new InstarError('not_set_up', `Topics are missing: ${missing.join(', ')}.`)
    return deployment.log()
  }

export const createKafkaChecks = (deployment: Deployment): readonly Check[] => [
  { name: 'Kafka', run: () => checkPart(deployment.cluster, brokerFindings, KAFKA_TODO) },
  {
    name: 'topics',
    run: ({ replication, partitions }) =>
      checkWith(deployment.cluster, (cluster) => topicFindings(cluster, replication, partitions), NO_KAFKA),
  },
  {
    name: 'settings',
    run: () =>
      checkWith(
        deployment.cluster,
        ({ differing }) => settingFindings(differing, deployment.brokers.join(',')),
        NO_KAFKA,
      ),
  },
  {
    name: 'registry',
    run: ({ registry }) =>
      checkPart(deployment.registry, (found) => registryFindings(found, String(registry)), REGISTRY_TODO),
  },
  { name: 'log', run: (_, stop) => checkWith(readableLog(deployment), recordCheck(deployment, stop), LOG_UNREADABLE) },
  { name: 'dead letters', run: () => checkWith(readableLog(deployment), deadLetterCheck(deployment), LOG_UNREADABLE) },
  { name: 'PostgreSQL', run: () => checkPart(deployment.database, databaseFindings, DATABASE_TODO) },
  {
    name: 'migrations',
    run: () => checkDatabase(deployment, ({ migrations }) => migrationFindings(migrations)),
  },
  {
    name: 'projections',
    run: () =>
      checkDatabase(deployment, (found) =>
        checkWith(readableLog(deployment), (log) => projectionFindings(log, found, Date.now()), LOG_UNREADABLE),
      ),
  },
  {
    name: 'services',
    run: () =>
      checkDatabase(deployment, ({ migrations, waiting }) =>
        migrations.state === 'current' ? workFindings(waiting, Date.now()) : [unsure(NO_TABLES)],
      ),
  },
  {
    name: 'groups',
    run: () =>
      checkWith(
        deployment.cluster,
        async ({ missing }) =>
          missing.length > 0
            ? [unsure('topics are missing')]
            : groupFindings(await groupLags(await deployment.access())),
        NO_KAFKA,
      ),
  },
  { name: 'gateways', run: async (config) => gatewayFindings(await deployment.gateways(), gatewayUrl(config)) },
  { name: 'clocks', run: () => checkClocks(deployment) },
]

const databaseFindings = (found: DatabaseFound | null): readonly Finding[] => [
  found === null
    ? unsure(
        'DATABASE_URL is not set: there are no projections, and `instar sql` has no data',
        'Set DATABASE_URL to postgres://user:password@host:port/database.',
      )
    : ok(`${found.version}, by DATABASE_URL`),
]

const checkDatabase = (
  deployment: Deployment,
  findings: (found: DatabaseFound) => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> =>
  checkWith(
    deployment.database,
    (found) => (found === null ? [unsure('DATABASE_URL is not set')] : findings(found)),
    'PostgreSQL does not answer',
  )

/** Reads every record; adds the records that cannot be decoded to the deployment. */
const recordCheck =
  (deployment: Deployment, stop: AbortSignal | undefined) =>
  async (log: KafkaLog): Promise<readonly Finding[]> => {
    try {
      const { summary, unreadable } = await readRecords(stop ? endedBy(log, stop) : log)
      deployment.unreadable.push(...unreadable)
      return [ok(summary)]
    } catch (error) {
      return [errorFinding(error)]
    }
  }

/** The dead letters on Kafka, and the records that `recordCheck` could not decode. */
const deadLetterCheck =
  (deployment: Deployment) =>
  async (log: KafkaLog): Promise<readonly Finding[]> => {
    const records = new UnreadableRecords(deployment.unreadable)
    for (const topic of TOPICS) for await (const letter of log.deadLetters(topic)) records.addDeadLetter(letter)
    return records.findings()
  }

const checkClocks = async (deployment: Deployment): Promise<readonly Finding[]> => {
  const [database, registry, gateways, newest] = await Promise.all([
    deployment.database().catch(() => null),
    deployment.registry().catch(() => null),
    deployment.gateways(),
    readableLog(deployment)().then(newestRecord, () => null),
  ])
  const readings: ClockReading[] = []
  if (database) {
    const { before, theirs, after } = database.clock
    readings.push({ source: 'PostgreSQL', before, remote: theirs, after })
  }
  if (registry && registry.clock.remote !== null) {
    const { before, remote, after } = registry.clock
    readings.push({ source: 'the registry', before, remote, after, resolution: 1000 })
  }
  readings.push(...gateways.flatMap(({ clock }) => clock ?? []))
  // The record was written at any time before now, so only a time in the future shows a skew.
  if (newest)
    readings.push({
      source: `the writer of the newest record (${newest.topic})`,
      before: 0,
      remote: newest.timestamp,
      after: Date.now(),
    })
  return readings.length > 0 ? clockFindings(readings) : [unsure('no part that reports its time answers')]
}

/** The last record of a partition that has the latest time. */
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
