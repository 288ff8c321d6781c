import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { BodyMemory, ownerOf, type Holding } from './body-memory.ts'
import { readBody } from './body.ts'

const KIB = 1024
const LIMIT = 1024 * KIB
const key = (id: string) => ownerOf({ key: { id }, admin: false })
const memory = (): BodyMemory => new BodyMemory(8 * LIMIT, LIMIT)
const read = (payload: PassThrough, holding: Holding, contentLength: number, window = 0): Promise<Buffer> =>
  readBody(payload, { contentLength, encoded: Number.isNaN(contentLength), limit: LIMIT, window }, holding)

test('a body is charged for the buffer that grows as it arrives, and whole for its size', async () => {
  const holding = memory().enter(key('anna'))
  const payload = new PassThrough()
  const whole = read(payload, holding, 40 * KIB)
  const held: number[] = []
  for (const bytes of [1, 16 * KIB - 1, 1, 24 * KIB - 1]) {
    const seen = new Promise((resolve) => payload.once('data', resolve))
    payload.write('x'.repeat(bytes))
    await seen
    held.push(holding.held / KIB)
  }
  assert.deepEqual(held, [16, 16, 32, 40])
  payload.end()
  assert.equal((await whole).length, 40 * KIB)
})

test('a body of unknown length is charged for its size once it is whole, and what its decoder keeps until then', async () => {
  const holding = memory().enter(key('anna'))
  const payload = new PassThrough()
  const whole = read(payload, holding, Number.NaN, 24 * KIB)
  const seen = new Promise((resolve) => payload.once('data', resolve))
  payload.write('x'.repeat(20 * KIB))
  await seen
  assert.equal(holding.held, 40 * KIB)
  payload.end('y')
  assert.deepEqual([(await whole).length, holding.held], [20 * KIB + 1, 20 * KIB + 1])
})

test('a body that gives way leaves its stream alone and is charged nothing more', async () => {
  const all = memory()
  const slow = all.enter(key('anna'))
  const payload = new PassThrough()
  const ended = assert.rejects(read(payload, slow, LIMIT), { code: 'overloaded' })
  payload.write('x'.repeat(LIMIT - 1))
  await new Promise(setImmediate)
  assert.equal(slow.held, LIMIT - 1)
  for (const name of ['ben', 'ben', 'ben', 'cleo', 'dora']) all.enter(key(name)).hold(LIMIT)
  all.enter(key('dora')).hold(0.4 * LIMIT)
  assert.throws(() => all.enter(key('eve')).hold(1.2 * LIMIT), { code: 'overloaded' })
  assert.equal(slow.held, LIMIT - 1)
  all.enter(key('eve')).hold(0.9 * LIMIT)
  await ended
  assert.deepEqual([slow.held, payload.listenerCount('data')], [0, 0])
  assert.throws(() => slow.hold(1), { code: 'overloaded' })
})

test('requests whose bodies have arrived are not ended, and leave room: a half, a quarter, an eighth', () => {
  const all = memory()
  const most = (name: string): number => {
    let held = 0
    for (let i = 0; i < 100; i += 1) {
      try {
        all.enter(key(name)).hold(LIMIT / 8)
        held += 1 / 8
      } catch (error) {
        assert.equal((error as { code: string }).code, 'overloaded')
      }
    }
    return held
  }
  assert.deepEqual(['anna', 'ben', 'cleo', 'dora'].map(most), [4, 2, 1, 0.5])
  assert.equal(all.held, 7.5 * LIMIT)
  assert.throws(() => all.foresee(key('eve'), 0.3 * LIMIT), { code: 'overloaded' })
  all.foresee(key('eve'), 0.2 * LIMIT)
})

test('one address alone takes seven eighths, a single request half or three times a body', () => {
  const all = memory()
  const here = ownerOf({ key: null, admin: false }, '127.0.0.1')
  for (let i = 0; i < 7; i += 1) all.enter(here).hold(LIMIT)
  assert.throws(() => all.enter(here).hold(0.1 * LIMIT), { code: 'overloaded' })
  all.enter(ownerOf({ key: null, admin: false }, '10.0.0.1')).hold(0.5 * LIMIT)
  const other = memory().enter(here)
  other.hold(4 * LIMIT)
  assert.throws(() => other.hold(1), { code: 'body_too_large' })
  const small = new BodyMemory(LIMIT, LIMIT).enter(here)
  small.hold(3 * LIMIT)
  assert.throws(() => small.hold(1), { code: 'body_too_large' })
})

test('a caller whose requests are over is forgotten', () => {
  const all = memory()
  const holdings = Array.from({ length: 3 }, () => all.enter(key('anna')))
  for (const holding of holdings) holding.hold(LIMIT)
  for (const holding of holdings) holding.release()
  holdings[0]!.hold(LIMIT)
  assert.equal(all.held, 0)
})
