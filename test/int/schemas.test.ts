/** The schema of a record comes from the log itself, also with a registry that is lost, created again or replaced. */
import { decodeRecord, encodeEvent, schemaTexts, TOPICS, type Event } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { openKafkaLog, setupKafka, setupSchemas, storedSchemas, type KafkaLog } from '@instar/log/kafka/index'
import { Kafka, logLevel, Partitioners } from 'kafkajs'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { Client } from 'pg'
import { all } from '../kit/event-log/harness.ts'
import { killAll } from '../kit/stack/guarded.ts'
import { startDatabase, startRegistry, type Database, type Registry } from '../kit/stack/registry.ts'
import { addresses, temporaryFolder } from '../kit/stack.ts'

const refused =
  (code: string, text = /./) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === code && text.test(error.message)
const schemas = schemaTexts()
const JSON_TYPE = { 'content-type': 'application/vnd.schemaregistry.v1+json' }
const events: readonly Event[] = [
  { type: 'FeedbackGiven', id: 'f', session: 's', turn: null, value: 1, comment: null, subject: 'u', key: null, at: 1 },
  { type: 'SessionClosed', session: 's', open: [], why: 'idle', at: 2 },
  { type: 'LearningFrozen', prev: '', policy: 'policy', on: true, who: 'me', why: 'test', request: 'r', at: 3 },
  { type: 'BlobChunk', sha256: 'a'.repeat(64), index: 0, count: 1, bytes: Buffer.from('x'), at: 4 },
]
const framed = (id: number, payload: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([0]), Buffer.from(new Uint32Array([id]).buffer).swap32(), payload])

describe('schemas', () => {
  const { brokers } = addresses()
  let folder: Awaited<ReturnType<typeof temporaryFolder>>
  let database: Database
  let registry: Registry
  let count = 0
  const opened: KafkaLog[] = []
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((log) => log.close()))
  })

  before(async () => {
    folder = await temporaryFolder()
    database = await startDatabase(join(folder.path, 'postgres'))
    registry = await startRegistry(join(folder.path, 'registry'), database)
  })
  after(async () => {
    await killAll()
    await folder.remove()
  })

  const world = async () => {
    const prefix = `m${process.pid}.${count++}.`
    const setup = async () => {
      await setupKafka({ brokers, prefix })
      return setupSchemas({ brokers, prefix, registry: registry.url, schemas })
    }
    const open = async (): Promise<KafkaLog> => {
      const log = await openKafkaLog({
        brokers,
        prefix,
        clientId: 'schemas test',
        registry: registry.url,
        schemas,
        retryMs: 10_000,
      })
      opened.push(log)
      return log
    }
    /** As older builds wrote it: without a header. */
    const old = async (topic: string, key: string, id: number, payload: Uint8Array, headers = {}): Promise<void> => {
      const producer = new Kafka({ brokers, logLevel: logLevel.NOTHING }).producer({
        createPartitioner: Partitioners.DefaultPartitioner,
      })
      await producer.connect()
      await producer.send({
        topic: `${prefix}${topic}`,
        messages: [{ key, value: framed(id, payload), timestamp: '5', headers }],
      })
      await producer.disconnect()
    }
    return { prefix, setup, open, old }
  }
  const register = async (subject: string, schema: object): Promise<number> => {
    const response = await fetch(`${registry.url}/subjects/${subject}/versions`, {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify({ schema: JSON.stringify(schema) }),
    })
    assert.equal(response.status, 200)
    return ((await response.json()) as { id: number }).id
  }
  const forgetSubject = async (subject: string): Promise<void> => {
    for (const how of ['', '?permanent=true'])
      await fetch(`${registry.url}/subjects/${subject}${how}`, { method: 'DELETE' })
  }
  /** The registry keeps the text of a deleted subject and returns the old id for it; after that it does not. */
  const forgetText = async (id: number): Promise<void> => {
    const client = new Client({ host: '127.0.0.1', port: database.port, user: 'postgres', database: 'registry' })
    await client.connect()
    await client.query('delete from content where contentid = $1', [id])
    await client.end()
  }
  /** What any consumer sees: the header of the topic's first record. */
  const headersOn = async (topic: string): Promise<string[]> => {
    const consumer = new Kafka({ brokers, logLevel: logLevel.NOTHING }).consumer({ groupId: `h${process.pid}` })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const seen = Promise.withResolvers<string>()
    await consumer.run({ eachMessage: async ({ message }) => seen.resolve(String(message.headers?.['instar.schema'])) })
    const first = await seen.promise
    await consumer.disconnect()
    return [first]
  }
  const read = async (log: KafkaLog): Promise<string[]> => {
    const found: string[] = []
    for (const topic of TOPICS)
      for (const record of await all(log.read(topic)))
        found.push(`${topic} ${record.schema} ${decodeRecord(record).id}`)
    return found
  }
  /** The registry of another history: the same schemas, registered in reverse order. */
  const fillOtherwise = async (): Promise<void> => {
    for (const [i, text] of Object.values(schemas).toReversed().entries())
      await register(`other${i}`, JSON.parse(text) as object)
  }

  test(
    'an emptied registry is filled from the log with the same ids, gaps included',
    { timeout: 180_000 },
    async () => {
      const { setup, open, old } = await world()
      for (let i = 0; i < 5; i++) await register(`foreign${i}`, { type: 'record', name: `Foreign${i}`, fields: [] })
      const { ids, restored } = await setup()
      assert.deepEqual([ids.size, restored], [Object.keys(schemas).length, []])
      const log = await open()
      await log.append(events.map((event) => encodeEvent(event)))
      const feedback = encodeEvent({ ...events[0]!, id: 'old' } as Event)
      await old('turns', 's', ids.get('FeedbackGiven.v1')!, feedback.payload)
      const before = await read(log)
      assert.equal(before.length, events.length + 1)
      await log.close()

      await registry.forget()
      await assert.rejects(open(), refused('not_set_up', /instar setup/))
      const again = await setup()
      assert.deepEqual([again.restored.toSorted(), again.moved], [Object.keys(schemas).toSorted(), []])
      assert.deepEqual(again.ids, ids)
      const after = await open()
      assert.deepEqual(await read(after), before)
      await after.append([encodeEvent({ ...events[0]!, id: 'new' } as Event)])
      assert.equal((await read(after)).length, before.length + 1)
      await after.close()
      assert.deepEqual(await setup(), { ids, restored: [], moved: [] })
      const { 0: subjects } = [(await (await fetch(`${registry.url}/subjects`)).json()) as string[]]
      assert.ok(
        subjects.every((subject) => !subject.startsWith('instar.restore')),
        'what filled the gaps is gone',
      )
    },
  )

  test(
    'a registry that lost some schemas is completed, and ids that it reassigned meanwhile stay readable',
    { timeout: 120_000 },
    async () => {
      const { setup, open, prefix, old } = await world()
      const { ids } = await setup()
      const id = ids.get('LearningFrozen.v1')!
      await forgetSubject('LearningFrozen')
      assert.equal((await setup()).ids.get('LearningFrozen.v1'), id, 'it still knew its text')
      await forgetSubject('LearningFrozen')
      await forgetText(id)
      const is = (await setup()).ids.get('LearningFrozen.v1')!
      assert.ok(is > Math.max(...ids.values()), `${is}`)
      const event = encodeEvent(events[2]!)
      await old('weights', 'policy', id, event.payload)
      await old('weights', 'policy', is, event.payload)
      const log = await open()
      assert.deepEqual(
        (await all(log.read('weights'))).map(({ schema }) => schema),
        ['LearningFrozen.v1', 'LearningFrozen.v1'],
      )
      assert.deepEqual(
        (await storedSchemas({ brokers, prefix, clientId: 't' }))
          .filter(({ schema }) => schema === 'LearningFrozen.v1')
          .map((row) => row.id),
        [id, is],
      )
      await log.close()
    },
  )

  test(
    'services and setup refuse a registry that has other schemas under the ids of the log',
    { timeout: 120_000 },
    async () => {
      await registry.forget()
      const { setup, open } = await world()
      await setup()
      const log = await open()
      await log.append(events.map((event) => encodeEvent(event)))
      const before = await read(log)
      await log.close()
      await registry.forget()
      await fillOtherwise()
      const { setup: setUpOther } = await world()
      await assert.doesNotReject(setUpOther(), 'another log may use it')
      await assert.rejects(open(), refused('registry_differs', /as schema id \d+, which is \w+\.v\d on the log/))
      await assert.rejects(setup(), refused('registry_differs'))
      await registry.forget()
      assert.equal((await setup()).restored.length, Object.keys(schemas).length)
      const whole = await open()
      assert.deepEqual(await read(whole), before)
      await whole.close()
    },
  )

  test(
    'the schema header of a record overrides its id; a differing text under a known name stops the reader',
    { timeout: 60_000 },
    async () => {
      const { setup, open, old, prefix } = await world()
      const { ids } = await setup()
      const log = await open()
      await log.append([encodeEvent(events[0]!)])
      const written = `FeedbackGiven.v1 ${createHash('sha256')
        .update(JSON.stringify(JSON.parse(schemas['FeedbackGiven.v1']!)))
        .digest('hex')
        .slice(0, 16)}`
      assert.deepEqual(await headersOn(`${prefix}turns`), [written])
      const good = encodeEvent({ ...events[0]!, id: 'g' } as Event)
      const other = ids.get('SessionClosed.v1')!
      await old('turns', 's', other, good.payload, { 'instar.schema': written })
      await old('turns', 's', 4_000_000, good.payload, { 'instar.schema': written })
      assert.deepEqual(
        (await all(log.read('turns'))).map(({ schema }) => schema),
        ['FeedbackGiven.v1', 'FeedbackGiven.v1', 'FeedbackGiven.v1'],
      )
      await old('turns', 's', other, good.payload, { 'instar.schema': 'FeedbackGiven.v1 0000000000000000' })
      await assert.rejects(all(log.read('turns')), refused('schema_changed', /FeedbackGiven\.v1/))
      await log.close()
    },
  )
})
