import assert from 'node:assert/strict'
import test from 'node:test'
import { follow } from './follow.ts'
import { openMemoryLog } from './memory/log.ts'
import { partitionOf } from './partition.ts'
import type { Append, LogRecord } from './port.ts'

const record = (key: string, text: string): Append => ({
  topic: 'turns',
  key,
  schema: 'Note.v1',
  payload: Buffer.from(text),
  timestamp: 0,
})
const decode = ({ payload }: LogRecord): string => Buffer.from(payload).toString()
const numbers = (n: number): string[] => Array.from({ length: n }, (_, i) => String(i))

test('delivers every event in order and returns its positions', async () => {
  const log = openMemoryLog()
  const positions = await log.append(numbers(100).map((text) => record('k', text)))
  const events: string[] = []
  const follower = await follow(log, {
    name: 'f',
    topics: ['turns', 'scores'],
    from: 'start',
    decode,
    onEvent: (event) => void events.push(event),
  })
  await follower.caughtUp()
  assert.deepEqual(events, numbers(100))
  assert.deepEqual(follower.positions(), { turns: { [partitionOf('k', 8)]: positions.at(-1)!.offset + 1 }, scores: {} })
  await log.append([record('k', 'live')])
  await follower.caughtUp()
  assert.equal(events.at(-1), 'live')
  await follower.stop()
  await follower.done
  await log.close()
})

test('yields to the event loop every `burst` events', async () => {
  const log = openMemoryLog()
  await log.append(numbers(100).map((text) => record('k', text)))
  let turns = 0
  let last = 0
  const events: number[] = []
  const tick = (): void => {
    turns++
    if (events.length < 100) setImmediate(tick)
  }
  const follower = await follow(log, {
    name: 'f',
    topics: ['turns'],
    from: 'start',
    decode,
    burst: 10,
    onEvent: (event) => {
      if (events.length === 0) setImmediate(tick)
      events.push(Number(event))
      if (events.length % 10 === 1 && events.length > 11) {
        assert.ok(turns > last, `the event loop did not turn before event ${events.length}`)
        last = turns
      }
    },
  })
  await follower.caughtUp()
  assert.equal(events.length, 100)
  assert.ok(turns >= 9)
  await log.close()
})

test('waits for the handler of an event before the next event', async () => {
  const log = openMemoryLog()
  await log.append(numbers(5).map((text) => record('k', text)))
  const gate = Promise.withResolvers<void>()
  const started: string[] = []
  const follower = await follow(log, {
    name: 'f',
    topics: ['turns'],
    from: 'start',
    decode,
    onEvent: async (event) => {
      started.push(event)
      if (event === '2') await gate.promise
    },
  })
  const waiting = follower.caughtUp()
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(started, ['0', '1', '2'])
  assert.deepEqual(Object.values(follower.positions().turns!), [2])
  gate.resolve()
  await waiting
  assert.deepEqual(started, numbers(5))
  await log.close()
})

test('stops at the record whose handler or decoding throws, with that error', async () => {
  for (const at of ['decode', 'onEvent'] as const) {
    const log = openMemoryLog()
    await log.append(numbers(5).map((text) => record('k', text)))
    const broken = new Error(at)
    const check = (where: string, event: string): void => {
      if (where === at && event === '3') throw broken
    }
    const events: string[] = []
    const follower = await follow(log, {
      name: 'f',
      topics: ['turns'],
      from: 'start',
      decode: (stored) => {
        check('decode', decode(stored))
        return decode(stored)
      },
      onEvent: (event) => {
        check('onEvent', event)
        events.push(event)
      },
    })
    await Promise.all([assert.rejects(follower.done, broken), assert.rejects(follower.caughtUp(), broken)])
    assert.deepEqual(events, ['0', '1', '2'])
    assert.deepEqual(Object.values(follower.positions().turns!), [3])
    await log.close()
  }
})

test('continues from the committed position', async () => {
  const log = openMemoryLog()
  await log.append(numbers(5).map((text) => record('k', text)))
  const options = { name: 'f', topics: ['turns'] as const, from: 'committed' as const, decode }
  const first = await follow(log, { ...options, onEvent: () => {} })
  await first.caughtUp()
  await first.commit()
  await first.stop()
  await log.append([record('k', 'next')])
  const events: string[] = []
  const second = await follow(log, { ...options, onEvent: (event) => void events.push(event) })
  await second.caughtUp()
  assert.deepEqual(events, ['next'])
  await log.close()
})
