/**
 * Appends of 2 KB by 256 concurrent callers to the log on Kafka, and reading them. Compared with Kafka's performance
 * tools and another client for Node, on one broker, in interleaved rounds with new topics each.
 */
import { setupKafka } from '@instar/log/kafka/index'
import { topicSettings } from '@instar/log/kafka/topics'
import { partitionCounts } from '@instar/log'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import { join } from 'node:path'
import { ROOT } from '../tools/tree.ts'
import { killAll } from '../test/kit/stack/guarded.ts'
import { FULL_JVM, startKafka } from '../test/kit/stack/kafka.ts'
import { temporaryFolder } from '../test/kit/stack.ts'
import * as java from './kafka/java.ts'
import { RECORD_BYTES, startClient, type ClientProcess, type TaskResult, type TopicAddress } from './kafka/client.ts'
import * as platformatic from './kafka/platformatic.ts'
import { machine, median, rounded } from './machine.ts'

/** `ofJava`: ratio to the rate of Kafka's own client, median of the rounds' ratios. `p50`, `p99`: of a call, ms. */
export type Row = {
  what: string
  client: string
  perSecond: number
  ofJava: number
  p50: number | null
  p99: number | null
  cpuMicrosPerRecord: number | null
  target: string | null
  reached: boolean | null
}
export type Report = { name: string; machine: string; rounds: number; records: number; rows: Row[] }
export type KafkaOptions = { quick?: boolean; logLine?: (line: string) => void; rounds?: number; records?: number }

const CALLERS = 256
const MANY_CALLERS = 4096
const WARM_UP = 30_000

/** `share`: of the records of a round, since flushed appends take several times as long. */
type FlushSetting = { what: string; flushed: boolean; share: number }
/** The settings of `instar setup` for one replica, and for three replicas. */
const FLUSH_SETTINGS: FlushSetting[] = [
  { what: 'each batch flushed to disk', flushed: true, share: 0.2 },
  { what: 'left to the page cache', flushed: false, share: 1 },
]

const createTopics = async (
  admin: Admin,
  brokers: readonly string[],
  prefix: string,
  flushed: boolean,
): Promise<void> => {
  const entries = Object.entries(topicSettings(flushed ? 1 : 3)).map(([name, value]) => ({
    name,
    value: name === 'min.insync.replicas' ? '1' : value,
  }))
  await admin.createTopics({
    topics: [
      { topic: `${prefix}turns`, numPartitions: partitionCounts().turns, replicationFactor: 1, configEntries: entries },
    ],
    waitForLeaders: false,
  })
  await setupKafka({ brokers, prefix })
}

const deleteTopics = async (admin: Admin, prefix: string): Promise<void> => {
  await admin.deleteTopics({ topics: (await admin.listTopics()).filter((topic) => topic.startsWith(prefix)) })
}

type Sample = Pick<TaskResult, 'seconds'> & Partial<TaskResult>
type Subject = {
  client: string
  produce(address: TopicAddress, records: number): Promise<Sample>
  consume?(address: TopicAddress, records: number): Promise<Sample>
}

/** The client that the ratios refer to. */
const PEER = 'Kafka (Java), 32 MiB unacknowledged'
const INSTAR = `Instar, ${CALLERS} callers`

const javaSubject = (client: string, memory: java.ProducerMemory, warmUp: number): Subject => ({
  client,
  produce: (address, records) => java.produce(address, records, warmUp, memory),
})

const nodeSubject = (client: string, process: ClientProcess, callers: number): Subject => ({
  client,
  produce: (address, records) => process.run(address, { task: 'produce', records, callers, perCall: 1 }),
})

const consumer = (process: ClientProcess): Pick<Subject, 'consume'> => ({
  consume: (address, records) => process.run(address, { task: 'consume', records }),
})

export const bench = async (options: KafkaOptions = {}): Promise<Report> => {
  const {
    quick = false,
    logLine = () => undefined,
    rounds = quick ? 1 : 5,
    records = quick ? 20_000 : 100_000,
  } = options
  const folder = await temporaryFolder()
  const cache = join(ROOT, '.cache')
  const platformaticModule = await platformatic.install(cache, logLine)
  const instar = startClient(new URL('./kafka/instar.ts', import.meta.url).href)
  const platformaticClient =
    platformaticModule === null
      ? null
      : startClient(new URL('./kafka/platformatic.ts', import.meta.url).href, platformaticModule)
  const warmUp = quick ? 5_000 : WARM_UP
  const subjects: Subject[] = [
    { ...javaSubject(PEER, java.LARGE_MEMORY, warmUp), consume: java.consume },
    javaSubject(
      `Kafka (Java), ${CALLERS} records unacknowledged`,
      { batch: 32 << 10, memory: CALLERS * RECORD_BYTES },
      warmUp,
    ),
    { ...nodeSubject(INSTAR, instar, CALLERS), ...consumer(instar) },
    nodeSubject(`Instar, ${MANY_CALLERS} callers`, instar, MANY_CALLERS),
    ...(platformaticClient
      ? [
          {
            ...nodeSubject(
              `@platformatic/kafka ${platformatic.VERSION}, ${CALLERS} callers`,
              platformaticClient,
              CALLERS,
            ),
            ...consumer(platformaticClient),
          },
        ]
      : []),
  ]
  const samples = new Map<string, Sample[]>()
  const addSample = (round: number, what: string, client: string, count: number, sample: Sample): void => {
    logLine(
      `${round < 0 ? 'warm-up' : `round ${round + 1}`}: ${what}: ${client} ${Math.round(count / sample.seconds)}/s`,
    )
    if (round >= 0) samples.set(`${what}/${client}`, [...(samples.get(`${what}/${client}`) ?? []), sample])
  }
  const rotated = (round: number): Subject[] =>
    subjects.map((_, i) => subjects[(i + round + subjects.length) % subjects.length]!)
  const consumed = 3 * records
  try {
    const { brokers } = await startKafka({ folder: join(folder.path, 'kafka'), jvm: FULL_JVM })
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const readTopic = { brokers, prefix: 'bench.read.', topic: 'bench.read.turns' }
    await createTopics(admin, brokers, readTopic.prefix, false)
    // Written by Instar, whose reader needs a schema id in each record.
    await subjects.find(({ client }) => client === INSTAR)!.produce(readTopic, consumed)
    for (let round = -1; round < rounds; round++) {
      for (const { what, flushed, share } of FLUSH_SETTINGS) {
        const count = share * records
        const prefix = `bench${round + 1}.${flushed ? 'disk' : 'cache'}.`
        await createTopics(admin, brokers, prefix, flushed)
        const address = { brokers, prefix, topic: `${prefix}turns` }
        for (const { client, produce } of rotated(round)) {
          addSample(round, `produce, ${what}`, client, count, await produce(address, count))
        }
        await deleteTopics(admin, prefix)
      }
      for (const { client, consume } of rotated(round)) {
        if (consume) addSample(round, 'consume', client, consumed, await consume(readTopic, consumed))
      }
    }
    await admin.disconnect()
  } finally {
    instar.stop()
    platformaticClient?.stop()
    await killAll()
    await folder.remove()
  }
  const orNull = (value: number): number | null => (Number.isFinite(value) ? rounded(value) : null)
  const row = (what: string, count: number, target: number, client: string): Row => {
    const own = samples.get(`${what}/${client}`)!
    const peer = samples.get(`${what}/${PEER}`)!
    const medianOf = (field: (sample: Sample) => number | undefined): number =>
      median(own.map((sample) => field(sample) ?? Number.NaN))
    const ofJava = median(own.map(({ seconds }, round) => peer[round]!.seconds / seconds))
    const hasTarget = client === INSTAR
    return {
      what,
      client,
      perSecond: Math.round(count / medianOf(({ seconds }) => seconds)),
      ofJava: rounded(ofJava),
      p50: orNull(medianOf(({ p50 }) => p50)),
      p99: orNull(medianOf(({ p99 }) => p99)),
      cpuMicrosPerRecord: orNull((medianOf(({ cpuSeconds }) => cpuSeconds) * 1e6) / count),
      target: hasTarget ? `≥ ${target} of Java` : null,
      reached: hasTarget ? ofJava >= target : null,
    }
  }
  const tasks = [
    ...FLUSH_SETTINGS.map(({ what, share }) => ({ what: `produce, ${what}`, count: share * records, target: 0.6 })),
    { what: 'consume', count: consumed, target: 1 },
  ]
  const rows = tasks.flatMap(({ what, count, target }) =>
    subjects
      .filter(({ client }) => samples.has(`${what}/${client}`))
      .map(({ client }) => row(what, count, target, client)),
  )
  return { name: 'kafka', machine: machine(), rounds, records, rows }
}

if (import.meta.main) {
  const report = await bench({
    quick: process.argv.includes('--quick'),
    logLine: (line) => {
      console.error(line)
    },
  })
  console.log(report.machine)
  console.table(report.rows)
}
