/** A partition whose only broker is dead: what is appended and read elsewhere does not wait for it. */
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import { Kafka, logLevel } from 'kafkajs'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { all, NOTE, note, range, SCHEMAS, textOf } from '../contract/event-log.harness.ts'
import { killAll } from './stack/guarded.ts'
import { startKafka, type KafkaCluster } from './stack/kafka.ts'
import { temporaryFolder } from './stack.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let kafka: KafkaCluster
before(async () => {
  folder = await temporaryFolder()
  kafka = await startKafka({ folder: join(folder.path, 'kafka'), nodes: 3 })
})
after(async () => {
  await killAll()
  await folder.remove()
})

test('appends and reads of the other topics go on within 3 s; what waits for the partition comes in order when it is back', { timeout: 240_000 }, async () => {
  const { brokers } = kafka
  const lonely = kafka.nodes[2]!
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  await admin.createTopics({ waitForLeaders: false, topics: [{ topic: 'blobs', replicaAssignment: [{ partition: 0, replicas: [lonely.id] }, { partition: 1, replicas: [1] }] }] })
  await admin.disconnect()
  const partitions = { blobs: 2 }
  await setupKafka({ brokers, partitions, replication: 3 })
  const log = await openKafkaLog({ brokers, clientId: 'leaderless test', registry: new Map([[NOTE, 1]]), schemas: SCHEMAS, partitions })
  try {
    const keys = range(100).map((i) => `k${i}`)
    const placed = await log.append(keys.map((key) => note(key, 'first', { topic: 'blobs' })))
    const dead = keys.find((_, i) => placed[i]!.partition === 0)!
    const alive = keys.find((_, i) => placed[i]!.partition === 1)!
    const followed: string[] = []
    const subscription = await log.subscribe({ topics: ['turns', 'blobs'], group: 'g', from: 'start', handle: (records) => void followed.push(...records.filter(({ topic }) => topic === 'turns').map(textOf)) })
    await subscription.caughtUp()
    await lonely.kill()
    await log.append([note('t', 'leaders have moved')])

    const waiting = range(20).map((i) => log.append([note(dead, `w${i}`, { topic: 'blobs' })]))
    let arrived = 0
    for (const one of waiting) void one.then(() => arrived++)
    const reading = all(log.read('blobs', { key: dead }))
    reading.catch(() => undefined)
    let longest = 0
    for (const i of range(30)) {
      const begin = performance.now()
      await log.append([note('t', `t${i}`), note(alive, `a${i}`, { topic: 'blobs' })])
      assert.equal((await all(log.read('turns', { key: 't' }))).length, 2 + i)
      longest = Math.max(longest, performance.now() - begin)
    }
    assert.ok(longest < 3_000, `${Math.round(longest)} ms`)
    assert.equal(arrived, 0)
    assert.equal((await all(log.read('blobs', { key: alive }))).length, 31)
    const end = performance.now() + 20_000
    while (followed.length < 31 && performance.now() < end) await new Promise((resolve) => { setTimeout(resolve, 50) })
    assert.equal(followed.length, 31, 'who follows both topics is given what there is')

    await lonely.start()
    await Promise.all(waiting)
    await subscription.caughtUp()
    assert.deepEqual((await all(log.read('blobs', { key: dead }))).map(textOf), ['first', ...range(20).map((i) => `w${i}`)])
    await subscription.stop()
  } finally {
    await log.close()
  }
})
