/** `instar log copy` on its own broker: an embedded log copied to Kafka and back is the same log. */
import {
  decodeRecord,
  encodeEvent,
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  isEpisodeRecord,
  schemaTexts,
  type Event,
  type Logged,
  type FoldOutcome,
  type ScoresEvent,
  type TurnsEvent,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import { TOPICS, type Topic } from '@instar/events/flow'
import { openEmbeddedLog, type EventLog } from '@instar/log'
import { openKafkaLog, setupKafka, setupSchemas } from '@instar/log/kafka/index'
import { Kafka, logLevel } from 'kafkajs'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { instar } from '../kit/cli.ts'
import { all, range } from '../kit/event-log/harness.ts'
import { longHistory, records, sha, smallHistory, T0 } from '../kit/projected-history.ts'
import { startKafka, type KafkaCluster } from '../kit/stack/kafka.ts'
import { addresses, temporaryFolder } from '../kit/stack.ts'

const TURNS = 3000
const CHUNKS = 40
const CHUNK_BYTES = 256 << 10
/**
 * The records that are copied. `setup` writes records about readers to the destination that the source does not have.
 */
const FACTS = TOPICS.filter((topic) => topic !== 'upgrades')

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let kafka: KafkaCluster
let url: string
const env = (): Record<string, string> => ({
  INSTAR_LOG: url,
  INSTAR_REGISTRY: addresses().registry,
  INSTAR_DATA: join(folder.path, 'source'),
})

before(async () => {
  folder = await temporaryFolder()
  kafka = await startKafka({ folder: join(folder.path, 'kafka') })
  url = `kafka://${kafka.brokers.join(',')}`
  const log = await openEmbeddedLog({ folder: join(folder.path, 'source', 'log'), schemas: schemaTexts() })
  const blob = (index: number): Event => ({
    type: 'BlobChunk',
    sha256: sha('blob'),
    index,
    count: CHUNKS,
    bytes: Buffer.alloc(CHUNK_BYTES, index),
    at: T0 + index,
  })
  for (const events of [smallHistory().events, [...longHistory(TURNS)], range(CHUNKS).map(blob)]) {
    const all = records(events)
    for (let i = 0; i < all.length; i += 500) await log.append(all.slice(i, i + 500))
  }
  await log.close()
})

after(async () => {
  await kafka.stop()
  await folder.remove()
})

type Report = {
  topics: Record<Topic, { records: number; bytes: number; digest: string }>
  copied: number
  skipped: number
  equal: boolean
}

const copy = async (from: string, to: string, ...rest: string[]): Promise<Report & { code: number }> => {
  const { code, json, err } = await instar(['log', 'copy', '--from', from, '--to', to, ...rest, '--json'], env())
  assert.ok(json, err)
  return { code, ...(json as Report) }
}

const codeOf = (report: object): string | undefined => (report as { error?: { code: string } }).error?.code

/** The fold of the log by any reader: each record's id and whether it counts, by topic and key, in order. */
const read = async (log: EventLog): Promise<Record<string, unknown[]>> => {
  const [turns, scores, updates, weights] = [initialTurns(), initialScores(), initialUpdates(), initialWeights()]
  const fold = (topic: Topic, logged: Logged): FoldOutcome | null =>
    topic === 'turns'
      ? foldTurns(turns, logged as Logged<TurnsEvent>)
      : topic === 'scores'
        ? isEpisodeRecord(logged.event)
          ? null
          : foldScores(scores, logged as Logged<ScoresEvent>)
        : topic === 'updates'
          ? foldUpdates(updates, logged as Logged<UpdatesEvent>)
          : topic === 'weights'
            ? foldWeights(weights, logged as Logged<WeightsEvent>)
            : null
  const keys: Record<string, unknown[]> = {}
  for (const topic of FACTS) {
    for (const record of await all(log.read(topic))) {
      const logged = decodeRecord(record)
      ;(keys[`${topic} ${record.key}`] ??= []).push([
        logged.id,
        record.timestamp,
        record.schema,
        Buffer.from(record.payload).toString('base64'),
        fold(topic, logged),
      ])
    }
  }
  return keys
}

const embedded = (name: string): string => `embedded:${join(folder.path, name)}`
const openCopy = (name: string): Promise<EventLog> =>
  openEmbeddedLog({ folder: join(folder.path, name, 'log'), readOnly: true })

/** The command as a process, killed at the first line of output with this beginning. */
const killedAt = async (line: RegExp, args: readonly string[]): Promise<void> => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('../../cli/src/main.ts', import.meta.url)), ...args], {
    env: { ...process.env, ...env() },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  for await (const said of createInterface({ input: child.stderr })) {
    if (!line.test(said)) continue
    child.kill('SIGKILL')
    break
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  assert.equal(child.signalCode, 'SIGKILL')
}

test(
  'copies of an embedded log to Kafka and back, killed on the way, have the same bytes, keys and folds',
  { timeout: 180_000 },
  async () => {
    assert.equal(codeOf(await copy(embedded('source'), url)), 'not_set_up')
    assert.equal((await instar(['setup', '--json'], env())).code, 0)

    await killedAt(/^copy +blobs .*100%/, ['log', 'copy', '--from', embedded('source'), '--to', url])
    await killedAt(/^copy +turns .*100%/, ['log', 'copy', '--from', embedded('source'), '--to', url])
    const there = await copy(embedded('source'), url)
    assert.deepEqual([there.code, there.equal], [0, true])
    const total = TOPICS.reduce((sum, topic) => sum + there.topics[topic].records, 0)
    assert.equal(there.copied + there.skipped, total)
    assert.ok(there.skipped >= TURNS + CHUNKS && there.topics.turns.records > TURNS, JSON.stringify(there))

    const back = await copy(url, embedded('back'))
    assert.deepEqual([back.code, back.copied, back.skipped], [0, total + 1, 0])
    assert.deepEqual(
      FACTS.map((topic) => back.topics[topic]),
      FACTS.map((topic) => there.topics[topic]),
    )
    assert.deepEqual([there.topics.upgrades.records, back.topics.upgrades.records], [0, 1])

    const [source, returned] = await Promise.all([openCopy('source'), openCopy('back')])
    const onKafka = await openKafkaLog({
      brokers: kafka.brokers,
      clientId: 'test',
      registry: addresses().registry,
      schemas: schemaTexts(),
    })
    const expected = await read(source)
    assert.deepEqual(await read(onKafka), expected)
    assert.deepEqual(await read(returned), expected)
    const ignored = Object.values(expected)
      .flat()
      .filter((entry) => (entry as [string, number, string, string, FoldOutcome | null])[4]?.counted === false)
    assert.ok(ignored.length >= 5)
    for (const log of [source, returned, onKafka]) await log.close()

    assert.deepEqual(
      await copy(embedded('source'), url).then(({ code, copied, skipped, equal }) => [code, copied, skipped, equal]),
      [0, 0, total, true],
    )
  },
)

test('a destination with other records is refused and not changed', { timeout: 60_000 }, async () => {
  const log = await openKafkaLog({
    brokers: kafka.brokers,
    clientId: 'test',
    registry: addresses().registry,
    schemas: schemaTexts(),
  })
  const { id: _, ...foreign } = encodeEvent({
    type: 'FeedbackGiven',
    id: 'foreign',
    session: 'sa',
    turn: null,
    value: 1,
    comment: null,
    subject: 'u',
    key: null,
    at: T0,
  })
  await log.append([foreign])
  const ends = await log.ends(TOPICS)
  const { code, err } = await instar(['log', 'copy', '--from', embedded('source'), '--to', url, '--json'], env())
  assert.equal(code, 1)
  assert.match(err, /copy_differs: turns \d+@\d+, key sa: the destination has this record, the source has none/)
  assert.deepEqual(await log.ends(TOPICS), ends)
  await log.close()
})

test(
  'a copy to other partition counts needs --partitions and is completed after a kill',
  { timeout: 120_000 },
  async () => {
    const admin = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    await admin.deleteTopics({ topics: (await admin.listTopics()).filter((topic) => !topic.startsWith('__')) })
    await admin.disconnect()
    await setupKafka({ brokers: kafka.brokers, partitions: { turns: 16 } })
    await setupSchemas({ brokers: kafka.brokers, registry: addresses().registry, schemas: schemaTexts() })
    assert.equal(codeOf(await copy(embedded('source'), url)), 'partition_count_changed')
    await killedAt(/^copy +turns .*100%/, [
      'log',
      'copy',
      '--from',
      embedded('source'),
      '--to',
      url,
      '--partitions',
      'turns=16',
    ])
    const there = await copy(embedded('source'), url, '--partitions', 'turns=16')
    assert.deepEqual([there.code, there.equal], [0, true])
    assert.ok(there.skipped >= TURNS)
    const back = await copy(url, embedded('narrow'), '--partitions', 'turns=8')
    assert.deepEqual([back.code, back.equal, back.topics], [0, true, there.topics])
    const [source, narrow] = await Promise.all([openCopy('source'), openCopy('narrow')])
    assert.deepEqual(await read(narrow), await read(source))
    for (const log of [source, narrow]) await log.close()
  },
)
