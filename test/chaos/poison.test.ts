/**
 * Unreadable records on every topic between good ones: random bytes, unknown schema ids, payloads that do not fit their
 * schema, chunks with a wrong hash. They go to the dead letters with their origin, and no reader ends or waits. A
 * record type of a newer build ends every reader of its chain with an error.
 */
import { listed } from '../kit/event-log/harness.ts'
import { deepEqual, equal, ok } from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Kafka, logLevel, Partitioners, type Producer } from 'kafkajs'
import { encodeEvent, type Topic } from '@instar/events'
import { partitionOf } from '@instar/log'
import { seeded } from '../../models/tiny/recipe/random.ts'
import { checkAll, checkNoCrash } from './world/checks.ts'
import { History } from './world/history.ts'
import { newLedger, startPeople } from './world/people.ts'
import { streamed } from './world/streams.ts'
import { startWorld, type World } from './world/world.ts'

const FRAMED = 5
const TOPICS = ['turns', 'scores', 'updates', 'weights'] as const
const KNOWN = {
  turns: 'TurnCaptured',
  scores: 'TurnScored',
  updates: 'BatchSealed',
  weights: 'VersionPublished',
  blobs: 'BlobChunk',
} as const

describe('a poisoned log', { timeout: 400_000 }, () => {
  const random = seeded(Number(process.env['INSTAR_SEED'] ?? 1))
  const ledger = newLedger()
  const history = new History()
  let world: World
  let foreign: Producer
  before(async () => {
    world = await startWorld()
    await history.follow(world.log)
    foreign = new Kafka({ brokers: world.kafka.brokers, logLevel: logLevel.NOTHING }).producer({
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    await foreign.connect()
  })
  after(async () => {
    await foreign?.disconnect()
    await world?.end()
  })

  const framed = (id: number, payload: Uint8Array): Buffer => {
    const value = Buffer.alloc(FRAMED + payload.length)
    value.writeUInt32BE(id, 1)
    value.set(payload, FRAMED)
    return value
  }
  const idOf = async (subject: string): Promise<number> =>
    ((await (await fetch(`${world.registry.url}/subjects/${subject}/versions/latest`)).json()) as { id: number }).id
  /** The position of the record. */
  const put = async (
    topic: Topic,
    key: string,
    value: Buffer,
  ): Promise<{ topic: Topic; partition: number; offset: number; value: Buffer }> => {
    const partition = partitionOf(key, world.log.partitions(topic))
    const [at] = await foreign.send({ topic, messages: [{ key, value, partition }] })
    return { topic, partition, offset: Number(at!.baseOffset), value }
  }

  test('unreadable records go to the dead letters with their origin, and all readers read the good records around them', async (t) => {
    const people = startPeople({ gateways: world.of('gateway'), sessions: 4, random, ledger, breathMs: 1000 })
    await people.more(30)
    const session = ledger.received[0]!.session
    const written: Awaited<ReturnType<typeof put>>[] = []
    for (const topic of TOPICS) {
      const key = topic === 'turns' ? session : 'policy'
      const known = await idOf(KNOWN[topic])
      for (const value of [
        randomBytes(64),
        Buffer.alloc(0),
        framed(known, randomBytes(48)),
        framed(known, Buffer.alloc(0)),
      ]) {
        // Random bytes must not look like a frame by chance.
        if (value.length === 64) value[0] = 0xff
        written.push(await put(topic, key, value))
        await people.more(2)
      }
    }
    await history.until('a published version', () => history.head > 0)
    const { adapter } = history.versions[history.head]!.fact!.event
    const chunk = await idOf(KNOWN.blobs)
    for (const value of [randomBytes(64), framed(chunk, randomBytes(40))]) await put('blobs', adapter, value)
    for (const [index, count] of [
      [0, 1],
      [0, 2],
      [7, 1],
    ] as const) {
      const { payload } = encodeEvent({
        type: 'BlobChunk',
        sha256: adapter,
        index,
        count,
        bytes: randomBytes(1000),
        at: Date.now(),
      })
      await put('blobs', adapter, framed(chunk, payload))
    }
    await people.more(20)
    await people.leave()
    await checkAll(world, history, ledger)

    // Readers that start now read all of it; a gateway with an empty disk must find the bytes of the head among wrong
    // chunks.
    const late = await world.add('gateway')
    await Promise.all(world.services.filter((service) => service !== late).map((service) => service.kill()))
    await world.ready()
    const answer = await streamed(late.url, [{ role: 'user', content: 'And who are you, then?' }])
    equal(answer.version, history.head)
    const again = startPeople({ gateways: world.of('gateway'), sessions: 6, random, ledger })
    await again.more(20)
    await again.leave()
    await checkAll(world, history, ledger)
    checkNoCrash(world)

    for (const topic of TOPICS) {
      const letters = await listed(world.log.deadLetters(topic))
      const poison = written.filter((one) => one.topic === topic)
      for (const { partition, offset, value } of poison) {
        const found = letters.find((letter) => letter.partition === partition && letter.offset === offset)
        ok(found, `${topic} ${partition}@${offset} is not among the dead letters`)
        ok(found.reason.length > 0)
        deepEqual(Buffer.from(found.value ?? []), value)
      }
      deepEqual(
        letters.map(({ partition, offset }) => `${partition}@${offset}`).toSorted(),
        poison.map(({ partition, offset }) => `${partition}@${offset}`).toSorted(),
        `a good record of ${topic} is among the dead letters`,
      )
    }
    t.diagnostic(`${written.length} poisoned records, each among the dead letters; ${history.summary()}`)
  })

  test('a record type of a newer build ends the readers of its chain and the gateways, with an error that names the type', async () => {
    const schema = JSON.stringify({ type: 'record', name: 'HeadMovedFurther', fields: [{ name: 'far', type: 'long' }] })
    const registered = await fetch(`${world.registry.url}/subjects/HeadMovedFurther/versions`, {
      method: 'POST',
      headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
      body: JSON.stringify({ schema }),
    })
    const { id } = (await registered.json()) as { id: number }
    await put('weights', 'policy', framed(id, Buffer.from([8])))
    const stopped = async (what: string, is: () => boolean | Promise<boolean>): Promise<void> => {
      for (const until = Date.now() + 60_000; !(await is()); await pause(50))
        if (Date.now() > until) throw new Error(`${what} did not stop`)
    }
    for (const kind of ['gateway', 'trainer', 'publisher', 'projections'] as const) {
      for (const { name, crashes } of world.of(kind)) {
        await stopped(name, () => crashes.length > 0)
        equal(crashes[0]!.status, 1)
        ok(
          /unknown_record: the record at weights \d+@\d+ has the type HeadMovedFurther/.test(crashes[0]!.said),
          crashes[0]!.said,
        )
      }
    }
  })
})
