/** Killed leaders: no acknowledged record is lost. */
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import type { LogRecord } from '@instar/log'
import { Kafka, logLevel } from 'kafkajs'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { all, NOTE, range, SCHEMAS } from '../kit/event-log/harness.ts'
import { killAll } from '../kit/stack/guarded.ts'
import { startKafka } from '../kit/stack/kafka.ts'
import { compare, startLoad } from '../kit/stack/load.ts'
import { temporaryFolder } from '../kit/stack.ts'

test(
  'with three brokers and two in-sync replicas no acknowledged record is lost when leaders are killed under load',
  { timeout: 590_000 },
  async (t) => {
    const folder = await temporaryFolder()
    try {
      const kafka = await startKafka({ folder: join(folder.path, 'kafka'), nodes: 3 })
      const { brokers } = kafka
      await setupKafka({ brokers, replication: 3 })
      const log = await openKafkaLog({
        brokers,
        clientId: 'faults',
        schemas: SCHEMAS,
        registry: new Map([[NOTE, 1]]),
        requestTimeout: 5000,
      })
      const followed: LogRecord[] = []
      const subscription = await log.subscribe({
        topics: ['turns'],
        group: 'g',
        from: 'start',
        handle: (records) => void followed.push(...records),
      })
      const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
      await admin.connect()
      const partitions = async () => (await admin.fetchTopicMetadata({ topics: ['turns'] })).topics[0]!.partitions
      const inStep = async (): Promise<boolean> =>
        (await partitions()).every(({ isr, leader }) => isr.length === 3 && leader > 0)
      const untilInStep = async (): Promise<void> => {
        while (!(await inStep().catch(() => false))) await delay(100)
      }

      await untilInStep()
      assert.deepEqual([log.partitions('turns'), (await partitions()).length], [64, 64])
      const load = startLoad(log, 48)
      const rounds = Number(process.env['INSTAR_ROUNDS'] ?? 10)
      for (const round of range(rounds)) {
        await load.more(100 + 40 * round)
        const leads = Object.groupBy(await partitions(), ({ leader }) => leader)
        const most = Object.entries(leads).toSorted(([, a], [, b]) => b!.length - a!.length)[0]!
        const node = kafka.nodes.find(({ id }) => id === Number(most[0]))!
        await node.kill()
        await load.more(200)
        await node.start()
        await untilInStep()
      }
      await load.more(200)
      const acknowledged = await load.stop()
      await subscription.caughtUp()
      const found = compare(acknowledged, await all(log.read('turns')))
      t.diagnostic(`${rounds} leaders killed: ${JSON.stringify({ ...found, longest: load.longest() })}`)
      assert.equal(found.lost, 0)
      assert.deepEqual({ doubled: found.doubled, disordered: found.disordered }, { doubled: 0, disordered: 0 })
      assert.deepEqual(compare(acknowledged, followed), found)
      await subscription.stop()
      await log.close()
      await admin.disconnect()
    } finally {
      await killAll()
      await folder.remove()
    }
  },
)
