/** Positions that a topic no longer has, which a reader must neither skip nor wait for. */
import { InstarError } from '@instar/events/errors'
import { openKafkaLog, setupKafka, type KafkaLog } from '@instar/log/kafka/index'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, NOTE, note, range, SCHEMAS, textOf } from '../kit/event-log/harness.ts'
import { addresses } from '../kit/stack.ts'

let count = 0
const feature = (title: string, body: (log: KafkaLog, admin: Admin, prefix: string) => Promise<void>): void => {
  test(title, { timeout: 60_000 }, async () => {
    const { brokers } = addresses()
    const prefix = `p${process.pid}.${count++}.`
    await setupKafka({ brokers, prefix })
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const log = await openKafkaLog({
      brokers,
      prefix,
      clientId: 'positions',
      schemas: SCHEMAS,
      registry: new Map([[NOTE, 1]]),
    })
    try {
      await body(log, admin, prefix)
    } finally {
      await log.close()
      await admin.disconnect()
    }
  })
}

feature(
  'positions before the retained records are refused, and retained records are at their positions',
  async (log, admin, prefix) => {
    const positions = await log.append(range(20).map((i) => note('k', String(i))))
    const { partition, offset } = positions[3]!
    const early = await log.subscribe({ topics: ['turns'], group: 'workers', from: 'start', handle: () => {} })
    await early.commit([{ topic: 'turns', partition, offset }])
    await early.stop()
    // The client deletes nothing before it knows the leader.
    await admin.fetchTopicOffsets(`${prefix}turns`)
    const first = positions[10]!.offset
    await admin.deleteTopicRecords({ topic: `${prefix}turns`, partitions: [{ partition, offset: String(first) }] })

    const truncated = (error: unknown): boolean => error instanceof InstarError && error.code === 'log_truncated'
    for (const from of [
      'start',
      'committed',
      { turns: { [partition]: offset } },
      { turns: { [partition]: first } },
    ] as const) {
      await assert.rejects(log.subscribe({ topics: ['turns'], group: 'workers', from, handle: () => {} }), truncated)
    }
    await assert.rejects(all(log.read('turns')), truncated)
    await assert.rejects(log.at(positions[3]!), truncated)
    assert.equal(textOf((await log.at(positions[10]!))!), '10')
  },
)

feature('a topic that is created again ends its followers with an error', async (log, admin, prefix) => {
  await log.append(range(5).map((i) => note('k', String(i))))
  const subscription = await log.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => {} })
  await subscription.caughtUp()
  await admin.deleteTopics({ topics: [`${prefix}turns`] })
  for (let there = true; there;) there = (await admin.listTopics()).includes(`${prefix}turns`)
  await setupKafka({ brokers: addresses().brokers, prefix })
  await assert.rejects(
    subscription.done,
    (error) => error instanceof InstarError && error.code === 'position_unknown' && error.details['end'] === 0,
  )
  await assert.rejects(
    subscription.caughtUp(),
    (error) => error instanceof InstarError && error.code === 'position_unknown',
  )
})

feature('a slow handler causes no loss and no repetition', async (log) => {
  await log.append(range(6).map((i) => note('k', String(i))))
  const texts: string[] = []
  const blocked = new Int32Array(new SharedArrayBuffer(4))
  const subscription = await log.subscribe({
    topics: ['turns'],
    group: 'g',
    from: 'committed',
    maxBatch: 2,
    handle: async (records) => {
      texts.push(...records.map(textOf))
      // This process is blocked meanwhile, as by a long step in the reading thread.
      Atomics.wait(blocked, 0, 0, 1500)
      const last = records.at(-1)!
      await subscription.commit([{ topic: 'turns', partition: last.partition, offset: last.offset + 1 }])
    },
  })
  await subscription.caughtUp()
  assert.deepEqual(texts, range(6).map(String))
  await subscription.stop()
})
