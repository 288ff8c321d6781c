/**
 * Our adapter on Kafka against Kafka's own tools and against another client for Node, on one broker, in interleaved
 * rounds: durable appends of 2 KB by 256 callers, and reading them back. A fresh topic for each round.
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
import { RECORD_BYTES, startClient, type Done, type Place, type Process } from './kafka/client.ts'
import * as platformatic from './kafka/platformatic.ts'
import { machine, median, rounded } from './machine.ts'

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
export type KafkaOptions = { quick?: boolean; say?: (line: string) => void; rounds?: number; records?: number }

const CALLERS = 256
const MANY_CALLERS = 4096
const WARM_UP = 30_000

/** `share`: of the records; a flushed one takes several times as long. */
type Setting = { what: string; flushed: boolean; share: number }
/** What `setup` makes for one broker, and what it makes where each record has three copies. */
const SETTINGS: Setting[] = [
  { what: 'each batch flushed to disk', flushed: true, share: 0.2 },
  { what: 'left to the page cache', flushed: false, share: 1 },
]

const makeTopics = async (
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

const removeTopics = async (admin: Admin, prefix: string): Promise<void> => {
  await admin.deleteTopics({ topics: (await admin.listTopics()).filter((topic) => topic.startsWith(prefix)) })
}

type Sample = Pick<Done, 'seconds'> & Partial<Done>
type Subject = {
  client: string
  produce(place: Place, records: number): Promise<Sample>
  consume?(place: Place, records: number): Promise<Sample>
}

/** What the ratios are against. */
const PEER = 'Kafka (Java), 32 MiB unacknowledged'
const OURS = `Instar, ${CALLERS} callers`

const javaSubject = (client: string, room: java.Room, warmUp: number): Subject => ({
  client,
  produce: (place, records) => java.produce(place, records, warmUp, room),
})

const nodeSubject = (client: string, process: Process, callers: number): Subject => ({
  client,
  produce: (place, records) => process.run(place, { task: 'produce', records, callers, perCall: 1 }),
})

const reading = (process: Process): Pick<Subject, 'consume'> => ({
  consume: (place, records) => process.run(place, { task: 'consume', records }),
})

export const bench = async (options: KafkaOptions = {}): Promise<Report> => {
  const { quick = false, say = () => undefined, rounds = quick ? 1 : 5, records = quick ? 20_000 : 100_000 } = options
  const folder = await temporaryFolder()
  const cache = join(ROOT, '.cache')
  const other = await platformatic.install(cache, say)
  const ours = startClient(new URL('./kafka/ours.ts', import.meta.url).href)
  const theirs = other === null ? null : startClient(new URL('./kafka/platformatic.ts', import.meta.url).href, other)
  const warmUp = quick ? 5_000 : WARM_UP
  const subjects: Subject[] = [
    { ...javaSubject(PEER, java.AMPLE, warmUp), consume: java.consume },
    javaSubject(
      `Kafka (Java), ${CALLERS} records unacknowledged`,
      { batch: 32 << 10, memory: CALLERS * RECORD_BYTES },
      warmUp,
    ),
    { ...nodeSubject(OURS, ours, CALLERS), ...reading(ours) },
    nodeSubject(`Instar, ${MANY_CALLERS} callers`, ours, MANY_CALLERS),
    ...(theirs
      ? [
          {
            ...nodeSubject(`@platformatic/kafka ${platformatic.VERSION}, ${CALLERS} callers`, theirs, CALLERS),
            ...reading(theirs),
          },
        ]
      : []),
  ]
  const samples = new Map<string, Sample[]>()
  const tell = (round: number, what: string, client: string, count: number, sample: Sample): void => {
    say(`${round < 0 ? 'warm-up' : `round ${round + 1}`}: ${what}: ${client} ${Math.round(count / sample.seconds)}/s`)
    if (round >= 0) samples.set(`${what}/${client}`, [...(samples.get(`${what}/${client}`) ?? []), sample])
  }
  const inOrder = (round: number): Subject[] =>
    subjects.map((_, i) => subjects[(i + round + subjects.length) % subjects.length]!)
  const toRead = 3 * records
  try {
    const { brokers } = await startKafka({ folder: join(folder.path, 'kafka'), jvm: FULL_JVM })
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const written = { brokers, prefix: 'bench.read.', topic: 'bench.read.turns' }
    await makeTopics(admin, brokers, written.prefix, false)
    // By us: what has no schema id is no record to us.
    await subjects.find(({ client }) => client === OURS)!.produce(written, toRead)
    for (let round = -1; round < rounds; round++) {
      for (const { what, flushed, share } of SETTINGS) {
        const count = share * records
        const prefix = `bench${round + 1}.${flushed ? 'disk' : 'cache'}.`
        await makeTopics(admin, brokers, prefix, flushed)
        const place = { brokers, prefix, topic: `${prefix}turns` }
        for (const { client, produce } of inOrder(round)) {
          tell(round, `produce, ${what}`, client, count, await produce(place, count))
        }
        await removeTopics(admin, prefix)
      }
      for (const { client, consume } of inOrder(round)) {
        if (consume) tell(round, 'consume', client, toRead, await consume(written, toRead))
      }
    }
    await admin.disconnect()
  } finally {
    ours.stop()
    theirs?.stop()
    await killAll()
    await folder.remove()
  }
  const orNull = (value: number): number | null => (Number.isFinite(value) ? rounded(value) : null)
  const row = (what: string, count: number, least: number, client: string): Row => {
    const mine = samples.get(`${what}/${client}`)!
    const peer = samples.get(`${what}/${PEER}`)!
    const middle = (of: (sample: Sample) => number | undefined): number =>
      median(mine.map((sample) => of(sample) ?? Number.NaN))
    const ofJava = median(mine.map(({ seconds }, round) => peer[round]!.seconds / seconds))
    const judged = client === OURS
    return {
      what,
      client,
      perSecond: Math.round(count / middle(({ seconds }) => seconds)),
      ofJava: rounded(ofJava),
      p50: orNull(middle(({ p50 }) => p50)),
      p99: orNull(middle(({ p99 }) => p99)),
      cpuMicrosPerRecord: orNull((middle(({ cpuSeconds }) => cpuSeconds) * 1e6) / count),
      target: judged ? `≥ ${least} of Java` : null,
      reached: judged ? ofJava >= least : null,
    }
  }
  const tasks = [
    ...SETTINGS.map(({ what, share }) => ({ what: `produce, ${what}`, count: share * records, least: 0.6 })),
    { what: 'consume', count: toRead, least: 1 },
  ]
  const rows = tasks.flatMap(({ what, count, least }) =>
    subjects
      .filter(({ client }) => samples.has(`${what}/${client}`))
      .map(({ client }) => row(what, count, least, client)),
  )
  return { name: 'kafka', machine: machine(), rounds, records, rows }
}

if (import.meta.main) {
  const report = await bench({
    quick: process.argv.includes('--quick'),
    say: (line) => {
      console.error(line)
    },
  })
  console.log(report.machine)
  console.table(report.rows)
}
