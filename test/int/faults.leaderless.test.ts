/**
 * One partition of `blobs` loses its only replica: operations that do not need that partition continue, the others wait
 * for it.
 */
import { contentSha, schemaTexts } from '@instar/events'
import { getBlob, partitionOf, putBlob } from '@instar/log'
import { openKafkaLog, setupKafka, type KafkaLog } from '@instar/log/kafka/index'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { all, NOTE, note, range, SCHEMAS } from '../kit/event-log/harness.ts'
import { killAll } from '../kit/stack/guarded.ts'
import { startKafka } from '../kit/stack/kafka.ts'
import { compare } from '../kit/stack/load.ts'
import { temporaryFolder } from '../kit/stack.ts'

const BLOBS = 4
/** The partition on the third broker alone; the other three are on the first two. */
const LONELY = 0
const ALONE = new RegExp(`^blobs ${LONELY}: no leader`)
const CHUNK = 'BlobChunk.v1'
const T0 = 1_795_000_000_000
const KEYS = 16
/**
 * Duration without a leader during which appends are timed. A read of its partition used to block every append for 30
 * s.
 */
const AWAY_MS = 10_000
const PROMPT_MS = 2_000
/** Until clients have found the new leaders of the broker's partitions. */
const FAILOVER_MS = 15_000

/** Content whose blob is on that partition. */
const bytesFor = (partition: number, size = 1024): Buffer => {
  for (;;) {
    const bytes = randomBytes(size)
    if (partitionOf(contentSha(bytes), BLOBS) === partition) return bytes
  }
}

test(
  'while the only replica of a blobs partition is down, other appends are acknowledged, and its reads and appends end after its return',
  { timeout: 240_000 },
  async (t) => {
    const folder = await temporaryFolder()
    let log: KafkaLog | undefined
    let admin: Admin | undefined
    const ending = new AbortController()
    try {
      const { brokers, nodes } = await startKafka({ folder: join(folder.path, 'kafka'), nodes: 3 })
      const [, , third] = nodes
      const brokersAdmin = (admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin())
      await admin.connect()
      await admin.createTopics({
        waitForLeaders: false,
        topics: [
          {
            topic: 'blobs',
            replicaAssignment: range(BLOBS).map((partition) => ({
              partition,
              replicas: [partition === LONELY ? third!.id : nodes[partition % 2]!.id],
            })),
            configEntries: [{ name: 'flush.messages', value: '1' }],
          },
        ],
      })
      await setupKafka({ brokers, replication: 3 })
      const said: string[] = []
      log = await openKafkaLog({
        brokers,
        clientId: 'leaderless test',
        schemas: { ...SCHEMAS, [CHUNK]: schemaTexts()[CHUNK]! },
        registry: new Map([NOTE, CHUNK].map((name, i) => [name, i + 1])),
        requestTimeout: 5000,
        retryMs: 60_000,
        logLine: (line) => said.push(line),
      })
      const open = log
      const leaders = async (topic: string): Promise<number[]> =>
        (await brokersAdmin.fetchTopicMetadata({ topics: [topic] })).topics[0]!.partitions.toSorted(
          (a, b) => a.partitionId - b.partitionId,
        ).map(({ leader }) => leader)

      const acknowledged: string[] = []
      const elsewhere: { sha256: string; bytes: Buffer }[] = []
      let rounds = 0
      /**
       * Appends records to each partition of `turns` and one to each other partition of `blobs`; returns the duration,
       * ms.
       */
      const round = async (): Promise<number> => {
        const n = rounds++
        const texts = range(KEYS).map((key) => `0.${key}.${n}`)
        const blobs = range(BLOBS)
          .filter((partition) => partition !== LONELY)
          .map((partition) => bytesFor(partition))
        const begin = performance.now()
        const [, ...names] = await Promise.all([
          open.append(texts.map((text) => note(text.slice(0, text.lastIndexOf('.')), text))),
          ...blobs.map((bytes) => putBlob(open, bytes, T0, ending.signal)),
        ])
        acknowledged.push(...texts)
        elsewhere.push(...names.map((sha256, i) => ({ sha256, bytes: blobs[i]! })))
        return performance.now() - begin
      }

      const there = bytesFor(LONELY, 300_000)
      const sha256 = await putBlob(log, there, T0)
      for (let i = 0; i < 20; i++) await round()

      await third!.kill()
      const late = range(3).map(() => bytesFor(LONELY))
      let ended = 0
      const count = <T>(waiting: Promise<T>): Promise<T> => waiting.finally(() => (ended += 1))
      // This one is appended before the loss of the leader is known, the others after it.
      const waiting = count(putBlob(log, late[0]!, T0, ending.signal))
      waiting.catch(() => undefined)
      const failover = await round()
      while ((await leaders('blobs'))[LONELY] !== -1 || (await leaders('turns')).includes(third!.id)) await delay(50)
      while (!said.some((line) => ALONE.test(line))) await delay(50)
      const known = [
        count(getBlob(log, sha256, T0)),
        ...late.slice(1).map((bytes) => count(putBlob(open, bytes, T0, ending.signal))),
      ]
      known.forEach((one) => one.catch(() => undefined))

      let longest = 0
      const before = rounds
      for (const until = performance.now() + AWAY_MS; performance.now() < until;)
        longest = Math.max(longest, await round())
      const last = elsewhere.at(-1)!
      const asked = performance.now()
      assert.deepEqual(Buffer.from(await getBlob(log, last.sha256, T0)), last.bytes)
      const read = performance.now() - asked
      const figures = { rounds: rounds - before, longest, read, failover }
      assert.equal(ended, 0, 'nothing of the partition without a leader has ended')

      const begin = performance.now()
      await third!.start()
      const back = performance.now()
      assert.deepEqual(Buffer.from((await known[0]) as Uint8Array), there)
      await Promise.all([waiting, ...known])
      const after = { started: back - begin, ended: performance.now() - back }
      t.diagnostic(
        JSON.stringify({ ...figures, ...after }, (_, value) => (typeof value === 'number' ? Math.round(value) : value)),
      )
      for (const bytes of late)
        assert.deepEqual(Buffer.from(await getBlob(log, contentSha(bytes), T0)), bytes, 'appended while it was away')
      await round()
      const found = compare(acknowledged, await all(log.read('turns')))
      assert.deepEqual(found, {
        acknowledged: rounds * KEYS,
        stored: rounds * KEYS,
        lost: 0,
        doubled: 0,
        disordered: 0,
      })
      assert.ok(longest < PROMPT_MS, `an append elsewhere took ${longest} ms`)
      assert.ok(read < PROMPT_MS, `a read of another partition took ${read} ms`)
      assert.ok(failover < FAILOVER_MS, `the first appends after the kill took ${failover} ms`)
    } finally {
      ending.abort()
      await admin?.disconnect()
      await log?.close()
      await killAll()
      await folder.remove()
    }
  },
)
