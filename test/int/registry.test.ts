/** The schema registry: what it refuses, what works without it, and bytes without a schema. */
import { schemaTexts } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { followEvents, type LogRecord } from '@instar/log'
import { openKafkaLog, registerSchemas, setupKafka, setupSchemas, type KafkaLog } from '@instar/log/kafka/index'
import { Kafka, logLevel, Partitioners } from 'kafkajs'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { all, range, listed } from '../kit/event-log/harness.ts'
import { encodedFeedback } from '../kit/feedback-record.ts'
import { killAll } from '../kit/stack/guarded.ts'
import { startDatabase, startRegistry, type Registry } from '../kit/stack/registry.ts'
import { addresses, temporaryFolder } from '../kit/stack.ts'

const refused =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === code

describe('schema registry', () => {
  const { brokers } = addresses()
  const schemas = schemaTexts()
  let folder: Awaited<ReturnType<typeof temporaryFolder>>
  let registry: Registry
  let count = 0

  before(async () => {
    folder = await temporaryFolder()
    registry = await startRegistry(join(folder.path, 'registry'), await startDatabase(join(folder.path, 'postgres')))
    // A server that has only just started may end a connection without a response; its own output says why it fails.
    await registerSchemas({ registry: registry.url, schemas, retryMs: 60_000 }).catch((cause: unknown) => {
      throw new Error(`the registry said:\n${registry.said()}`, { cause })
    })
  })
  after(async () => {
    await killAll()
    await folder.remove()
  })

  const feature = (
    title: string,
    body: (open: (logLine?: (line: string) => void) => Promise<KafkaLog>, prefix: string) => Promise<void>,
  ): void => {
    test(title, { timeout: 120_000 }, async () => {
      const prefix = `r${process.pid}.${count++}.`
      await setupKafka({ brokers, prefix })
      await setupSchemas({ brokers, prefix, registry: registry.url, schemas })
      const logs: KafkaLog[] = []
      const open = async (logLine?: (line: string) => void): Promise<KafkaLog> => {
        const log = await openKafkaLog({
          brokers,
          prefix,
          clientId: 'registry test',
          registry: registry.url,
          schemas,
          logLine,
        })
        logs.push(log)
        return log
      }
      try {
        await body(open, prefix)
      } finally {
        for (const log of logs) await log.close()
      }
    })
  }

  test('repeated registration of all schemas keeps their ids', async () => {
    const first = await registerSchemas({ registry: registry.url, schemas })
    assert.equal(first.size, Object.keys(schemas).length)
    assert.equal(new Set(first.values()).size, first.size)
    assert.deepEqual(await registerSchemas({ registry: registry.url, schemas }), first)
  })

  test('the registry refuses a version that cannot read all earlier ones', async () => {
    const record = (...fields: object[]): string =>
      JSON.stringify({ type: 'record', name: 'Probe', namespace: 'instar.test', fields })
    const a = { name: 'a', type: 'int' }
    const probe = { 'Probe.v1': record(a) }
    await registerSchemas({ registry: registry.url, schemas: probe })
    const required = { ...probe, 'Probe.v2': record(a, { name: 'b', type: 'string' }) }
    await assert.rejects(registerSchemas({ registry: registry.url, schemas: required }), refused('schema_changed'))
    const edited = { 'Probe.v1': record({ name: 'a', type: 'string' }) }
    await assert.rejects(registerSchemas({ registry: registry.url, schemas: edited }), refused('schema_changed'))
    const added = { ...probe, 'Probe.v2': record(a, { name: 'b', type: 'string', default: '' }) }
    assert.equal((await registerSchemas({ registry: registry.url, schemas: added })).size, 2)
  })

  feature('encodes and decodes events in its wire format', async (open) => {
    const log = await open()
    const events = range(20).map((i) => encodedFeedback(`s${i % 3}`, i))
    const positions = await log.append(events)
    for (const [i, position] of positions.entries()) {
      const record = (await log.at(position))!
      assert.deepEqual(
        [record.schema, record.key, Buffer.from(record.payload)],
        [events[i]!.schema, events[i]!.key, Buffer.from(events[i]!.payload)],
      )
    }
    const seen: string[] = []
    const follower = await followEvents(log, { name: 'g', topics: ['turns'], onEvent: ({ id }) => void seen.push(id) })
    await follower.caughtUp()
    assert.deepEqual(seen.toSorted(), events.map(({ id }) => id).toSorted())
    await follower.stop()
  })

  feature('a registry without the schemas of this build differs from one that does not answer', async (_, prefix) => {
    const unknown = { ...schemas, 'Never.v1': JSON.stringify({ type: 'record', name: 'Never', fields: [] }) }
    await assert.rejects(
      openKafkaLog({ brokers, prefix, clientId: 't', registry: registry.url, schemas: unknown }),
      refused('not_set_up'),
    )
    await assert.rejects(
      openKafkaLog({ brokers, prefix: 'nowhere.', clientId: 't', registry: registry.url, schemas, retryMs: 2000 }),
      refused('not_set_up'),
    )
  })

  feature(
    'while the registry is down no reader waits, unknown ids wait, and nothing goes to the dead letters',
    async (open, prefix) => {
      const said: string[] = []
      const waits = Promise.withResolvers<void>()
      const knowing = await open()
      const before = range(5).map((i) => encodedFeedback('s', i))
      await knowing.append(before)
      await registry.kill()

      await knowing.append([encodedFeedback('s', 5)])
      const late = await open((line) => {
        said.push(line)
        if (line.endsWith('retrying')) waits.resolve()
      })
      await late.append([encodedFeedback('s', 6)])
      const stranger = new Kafka({ brokers, logLevel: logLevel.NOTHING }).producer({
        createPartitioner: Partitioners.DefaultPartitioner,
      })
      await stranger.connect()
      const { partition } = (await late.append([encodedFeedback('s', 7)]))[0]!
      await stranger.send({
        topic: `${prefix}turns`,
        messages: [
          {
            key: 's',
            value: Buffer.concat([Buffer.from([0, 0, 0, 0x27, 0x0f]), encodedFeedback('s', 8).payload]),
            partition,
          },
        ],
      })
      await stranger.disconnect()
      const seen: LogRecord[] = []
      const subscription = await late.subscribe({
        topics: ['turns'],
        group: 'g',
        from: 'start',
        handle: (records) => void seen.push(...records),
      })
      await waits.promise
      assert.equal(said.length, 2, said.join('; '))

      await registry.start()
      await assert.rejects(subscription.done, refused('unknown_schema'))
      assert.ok(
        seen.every(({ offset }) => offset < 8),
        'nothing behind it is handed on',
      )
      assert.deepEqual(await listed(late.deadLetters('turns')), [])
      await late.deadLetter({ topic: 'turns', partition, offset: 8 }, 'a stranger wrote it')
      assert.equal((await all(knowing.read('turns'))).length, 8)
    },
  )

  feature(
    'unreadable records of a topic go to the dead letters once, with their origin, and no reader waits',
    async (open, prefix) => {
      const log = await open()
      const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING })
      const foreign = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
      await foreign.connect()
      const events = range(4).map((i) => encodedFeedback('s', i))
      const { partition } = (await log.append([events[0]!]))[0]!
      const good = Buffer.from(encodedFeedback('s', 9).payload)
      const framed = (id: number, payload: Uint8Array): Buffer =>
        Buffer.concat([Buffer.from([0]), Buffer.from(new Uint32Array([id]).buffer).swap32(), payload])
      const poison: { key: string | Buffer | null; value: Buffer | null; headers?: Record<string, string> }[] = [
        { key: 's', value: Buffer.from('random bytes, no format') },
        { key: 's', value: framed(1, good), headers: { 'instar.schema': 'FeedbackGiven.v1' } },
        { key: null, value: framed(1, good) },
        { key: Buffer.from([0xff, 0xfe]), value: framed(1, good) },
        { key: 's', value: null },
      ]
      await foreign.send({ topic: `${prefix}turns`, messages: poison.map((message) => ({ ...message, partition })) })
      await log.append(events.slice(1))

      const follow = async (): Promise<string[]> => {
        const seen: string[] = []
        const reader = await open()
        const follower = await followEvents(reader, {
          name: 'g',
          topics: ['turns'],
          onEvent: ({ id }) => void seen.push(id),
        })
        await follower.caughtUp()
        await follower.stop()
        return seen
      }
      for (const _ of range(2))
        assert.deepEqual(
          await follow(),
          events.map(({ id }) => id),
        )
      const letters = await listed(log.deadLetters('turns'))
      assert.deepEqual(
        letters.map(({ topic, partition: at, offset }) => ({ topic, at, offset })),
        range(5).map((i) => ({ topic: 'turns', at: partition, offset: 1 + i })),
      )
      assert.deepEqual(
        letters.map(({ reason }) => /schema id|header|no key|UTF-8/.exec(reason)?.[0]),
        ['schema id', 'header', 'no key', 'UTF-8', 'schema id'],
      )
      assert.equal(Buffer.from(letters[0]!.value!).toString(), 'random bytes, no format')
      assert.deepEqual((await all(log.read('turns'))).length, 4)
      await foreign.disconnect()
    },
  )

  feature('a record that does not fit its schema goes to the dead letters and is skipped', async (open) => {
    const log = await open()
    const broken = { ...encodedFeedback('s', 1), payload: Buffer.from([255, 255, 255]) }
    const [position] = await log.append([broken])
    await log.append([encodedFeedback('s', 2)])
    const seen: string[] = []
    const bad: number[] = []
    const follower = await followEvents(log, {
      name: 'g',
      topics: ['turns'],
      onEvent: ({ id }) => void seen.push(id),
      onBad: ({ offset }) => void bad.push(offset),
    })
    await follower.caughtUp()
    assert.deepEqual([seen.length, bad], [1, [position!.offset]])
    const [letter] = await listed(log.deadLetters('turns'))
    assert.deepEqual([letter?.partition, letter?.offset], [position!.partition, position!.offset])
    await follower.stop()
  })
})
