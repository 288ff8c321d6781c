/** What `setup` creates on Kafka, and what the programs of this folder leave behind. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { brokersOf, openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { addresses } from '../kit/stack.ts'

const withAdmin = async <T>(work: (admin: Admin) => Promise<T>): Promise<T> => {
  const admin = new Kafka({ brokers: addresses().brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

test('concurrent setups create each topic once, with its settings', { timeout: 60_000 }, async () => {
  const { brokers } = addresses()
  const prefix = `s${process.pid}.`
  const first = await Promise.all([1, 2, 3].map(() => setupKafka({ brokers, prefix })))
  assert.ok(first.some(({ created }) => created.length === 2 * TOPICS.length + 1))
  assert.deepEqual(await setupKafka({ brokers, prefix }), { created: [], differing: [] })
  await assert.rejects(
    setupKafka({ brokers, prefix, partitions: { turns: 3 } }),
    (error) => error instanceof InstarError && error.code === 'partition_count_changed',
  )

  await withAdmin(async (admin) => {
    for (const topic of ['turns', 'dlq.turns']) {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: 2, name: `${prefix}${topic}` }],
      })
      const {
        'cleanup.policy': policy,
        'retention.ms': ms,
        'retention.bytes': bytes,
        'flush.messages': flush,
        'min.insync.replicas': copies,
      } = Object.fromEntries(
        resources[0]!.configEntries.map(({ configName, configValue }) => [configName, configValue]),
      )
      assert.deepEqual(
        { policy, ms, bytes, flush, copies },
        { policy: 'delete', ms: '-1', bytes: '-1', flush: '1', copies: '1' },
      )
    }
  })
})

test('a log keeps its number of partitions: one that setup may choose needs no setting, another one does', async () => {
  const { brokers } = addresses()
  for (const [turns, chosen] of [
    [64, true],
    [12, false],
  ] as const) {
    const prefix = `n${turns}.${process.pid}.`
    await setupKafka({ brokers, prefix, partitions: { turns } })
    const open = async (partitions: { turns?: number }): Promise<number> => {
      const log = await openKafkaLog({
        brokers,
        prefix,
        clientId: 'test',
        schemas: {},
        registry: new Map(),
        partitions,
      })
      await log.close()
      return log.partitions('turns')
    }
    assert.equal(await open({ turns }), turns)
    if (chosen) {
      assert.deepEqual(await setupKafka({ brokers, prefix }), { created: [], differing: [] })
      assert.equal(await open({}), turns)
    } else {
      const withCode = (error: unknown): boolean =>
        error instanceof InstarError && error.code === 'partition_count_changed' && error.details['stored'] === turns
      await assert.rejects(setupKafka({ brokers, prefix }), withCode)
      await assert.rejects(open({}), withCode)
    }
  }
})

test('a log that began with 8 partitions of turns keeps them where three replicas are asked for', async () => {
  const { brokers } = addresses()
  const prefix = `k${process.pid}.`
  await setupKafka({ brokers, prefix })
  assert.deepEqual((await setupKafka({ brokers, prefix, replication: 3 })).created, [])
})

test('settings that differ are reported and not changed', { timeout: 60_000 }, async () => {
  const { brokers } = addresses()
  const prefix = `o${process.pid}.`
  await withAdmin((admin) =>
    admin.createTopics({
      waitForLeaders: false,
      topics: [
        { topic: `${prefix}scores`, numPartitions: 4, configEntries: [{ name: 'retention.ms', value: '1000' }] },
      ],
    }),
  )
  for (const _ of [1, 2]) {
    const { differing } = await setupKafka({ brokers, prefix })
    assert.deepEqual(
      differing.find(({ setting }) => setting === 'retention.ms'),
      { topic: `${prefix}scores`, setting: 'retention.ms', is: '1000', should: '-1' },
    )
    assert.ok(differing.every(({ topic }) => topic === `${prefix}scores`))
  }
})

test('the address of a log on Kafka has its brokers', () => {
  assert.deepEqual(brokersOf('kafka://a:9092,b.example:9093'), ['a:9092', 'b.example:9093'])
  for (const bad of ['kafka://', 'kafka://a', 'kafka://a:9092,b', 'http://a:9092', 'kafka://a:9092/topic']) {
    assert.throws(
      () => brokersOf(bad),
      (error) => error instanceof InstarError && error.code === 'bad_request',
    )
  }
})

test('a killed run leaves no process and no data', { timeout: 60_000 }, async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('processes/broker.ts', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const { pid, folder } = JSON.parse(line) as { pid: number; folder: string }
  assert.ok(existsSync(`/proc/${pid}`) && existsSync(folder))
  child.kill('SIGKILL')
  while (existsSync(`/proc/${pid}`) || existsSync(folder)) await delay(50)
})
