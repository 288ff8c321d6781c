/**
 * Records and topics at which a reader of a log on Kafka ends with an error, instead of skipping or retrying for ever.
 */
import { encodeEvent, schemaTexts, written } from '@instar/events'
import { InstarError, type ErrorCode } from '@instar/events/errors'
import { partitionOf } from '@instar/log'
import { openKafkaLog, setupKafka, setupSchemas, type KafkaLog } from '@instar/log/kafka/index'
import { Kafka, logLevel, Partitioners, type Admin } from 'kafkajs'
import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { all, range, listed } from '../kit/event-log/harness.ts'
import { addresses } from '../kit/stack.ts'

const schemas = schemaTexts()
const { brokers, registry } = addresses()
const refused =
  (code: ErrorCode, text = /./) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === code && text.test(error.message)
const feedback = (i: number) =>
  encodeEvent({
    type: 'FeedbackGiven',
    id: `f${i}`,
    session: 's',
    turn: null,
    value: 1,
    comment: written('x'.repeat(200)),
    subject: 'u',
    key: null,
    at: 1000 + i,
  })
const opened: KafkaLog[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((log) => log.close()))
})
let count = 0

type Partitions = NonNullable<Parameters<typeof setupKafka>[0]['partitions']>

const world = async () => {
  const prefix = `x${process.pid}.${count++}.`
  await setupKafka({ brokers, prefix })
  await setupSchemas({ brokers, prefix, registry, schemas })
  const open = async (partitions: Partitions = {}, anyPlacement = false): Promise<KafkaLog> => {
    const log = await openKafkaLog({
      brokers,
      prefix,
      clientId: 'refusals test',
      registry,
      schemas,
      partitions,
      anyPlacement,
      retryMs: 10_000,
    })
    opened.push(log)
    return log
  }
  return { prefix, open }
}

const withAdmin = async (work: (admin: Admin) => Promise<unknown>): Promise<void> => {
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  await work(admin).finally(() => admin.disconnect())
}

/** The error of a subscription from the start, and the records before it. */
const followed = async (log: KafkaLog): Promise<{ seen: number; fault: unknown }> => {
  let seen = 0
  const subscription = await log.subscribe({
    topics: ['turns'],
    group: 'g',
    from: 'start',
    handle: (records) => void (seen += records.length),
  })
  const fault = await Promise.race([subscription.done, subscription.caughtUp()]).then(
    () => null,
    (cause: unknown) => cause,
  )
  await subscription.stop()
  return { seen, fault }
}

test(
  'an unknown schema id stops the reader before the record; set aside by hand, the record is skipped',
  { timeout: 60_000 },
  async () => {
    const { prefix, open } = await world()
    const log = await open()
    const { partition } = (await log.append([feedback(0)]))[0]!
    const stranger = new Kafka({ brokers, logLevel: logLevel.NOTHING }).producer({
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    await stranger.connect()
    const value = Buffer.concat([Buffer.from([0, 0x00, 0x3d, 0x09, 0x00]), feedback(9).payload])
    await stranger.send({ topic: `${prefix}turns`, messages: [{ key: 's', value, partition }] })
    await stranger.disconnect()
    await log.append([feedback(1)])

    const unknown = refused('unknown_schema', new RegExp(`turns ${partition}@1 has schema id 4000000`))
    const { seen, fault } = await followed(log)
    assert.ok(unknown(fault), String(fault))
    assert.ok(seen <= 1, 'nothing behind it is handed on')
    await assert.rejects(all(log.read('turns')), unknown)
    await assert.rejects(log.at({ topic: 'turns', partition, offset: 1 }), unknown)
    assert.deepEqual(await listed(log.deadLetters('turns')), [])

    await log.deadLetter({ topic: 'turns', partition, offset: 1 }, 'another program wrote it')
    assert.deepEqual(await followed(log), { seen: 2, fault: null })
    const fresh = await open()
    assert.equal((await all(fresh.read('turns'))).length, 2)
    assert.deepEqual(
      (await listed(log.deadLetters('turns'))).map(({ offset, reason }) => [offset, reason]),
      [[1, 'another program wrote it']],
    )
    await Promise.all([log.close(), fresh.close()])
  },
)

test(
  'a topic whose first records are deleted is refused at opening, by reads and by subscribers',
  { timeout: 60_000 },
  async () => {
    const { prefix, open } = await world()
    const log = await open()
    const positions = await log.append(range(10).map(feedback))
    const { partition } = positions[0]!
    await withAdmin(async (admin) => {
      const topic = `${prefix}turns`
      await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: '4' }] })
    })
    const gone = refused(
      'log_truncated',
      new RegExp(`turns ${partition} starts at offset 4: its first 4 records are missing`),
    )
    await assert.rejects(open(), gone)
    await assert.rejects(all(log.read('turns')), gone)
    await assert.rejects(log.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => undefined }), gone)
    await assert.rejects(
      log.subscribe({ topics: ['turns'], group: 'g', from: { turns: { [partition]: 7 } }, handle: () => undefined }),
      gone,
    )
    assert.equal((await all(log.read('scores'))).length, 0, 'the other topics are whole')
    await log.close()
  },
)

test(
  'a topic that was given partitions after records were written is refused with the new number, and a copy reads it',
  { timeout: 60_000 },
  async () => {
    const { prefix, open } = await world()
    await (await open()).append(range(3).map(feedback))
    const wider = partitionOf('s', 8) === partitionOf('s', 12) ? 13 : 12
    const partitions = { turns: wider }
    await withAdmin((admin) => admin.createPartitions({ topicPartitions: [{ topic: `${prefix}turns`, count: wider }] }))
    await assert.rejects(open(), refused('partition_count_changed', new RegExp(`turns has ${wider} partitions`)))
    await assert.rejects(
      open(partitions),
      refused(
        'partition_count_changed',
        new RegExp(
          `turns was given partitions .* key s is in partition ${partitionOf('s', 8)}, of ${wider} partitions it belongs to ${partitionOf('s', wider)}`,
        ),
      ),
    )
    const source = await open(partitions, true)
    assert.equal((await all(source.read('turns'))).length, 3)
  },
)

test('a record of another program in a partition that is not its key’s does not refuse the log', async () => {
  const { prefix, open } = await world()
  await (await open()).append(range(3).map(feedback))
  const stranger = new Kafka({ brokers, logLevel: logLevel.NOTHING }).producer({
    createPartitioner: Partitioners.DefaultPartitioner,
  })
  await stranger.connect()
  const partition = (partitionOf('stranger', 8) + 1) % 8
  const value = Buffer.concat([Buffer.from([0, 0, 0, 0, 1]), feedback(9).payload])
  await stranger.send({ topic: `${prefix}turns`, messages: [{ key: 'stranger', value, partition }] })
  await stranger.disconnect()
  await open()
})

for (const { codec, read } of [
  { codec: 'gzip', read: true },
  { codec: 'zstd', read: true },
  { codec: 'lz4', read: false },
  { codec: 'snappy', read: false },
]) {
  test(
    `batches that the broker compressed with ${codec} are ${read ? 'read' : 'refused by the name of the codec without a retry'}`,
    { timeout: 60_000 },
    async () => {
      const { prefix, open } = await world()
      const configEntries = [
        { name: 'compression.type', value: codec },
        { name: 'max.message.bytes', value: String(8 << 20) },
      ]
      await withAdmin((admin) =>
        admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: `${prefix}turns`, configEntries }] }),
      )
      const log = await open()
      await log.append(range(50).map(feedback))
      const begin = performance.now()
      const { seen, fault } = await followed(log)
      if (read) assert.deepEqual([seen, fault], [50, null])
      else {
        const expected = refused('unsupported_codec', new RegExp(`turns .* compressed with ${codec}`, 'i'))
        assert.ok(expected(fault), String(fault))
        await assert.rejects(all(log.read('turns')), expected)
        assert.ok(performance.now() - begin < 8_000, 'nothing waited for its patience')
      }
      await log.close()
    },
  )
}
