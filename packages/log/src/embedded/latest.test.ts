import assert from 'node:assert/strict'
import test from 'node:test'
import type { Topic } from '@instar/events/flow'
import type { Store } from '../store.ts'
import { Latest, withLatest, type Written } from './latest.ts'

const FOLLOWED = new Set<Topic>(['turns'])
const ALL = { from: 0, to: Infinity, maxRecords: 512, maxBytes: 1 << 20 }

const written = (
  offsets: readonly number[],
  { topic = 'turns', bytes = 10 }: { topic?: Topic; bytes?: number } = {},
): Written => ({
  records: offsets.map((offset) => ({
    topic,
    key: `k${offset}`,
    schema: 'TurnCaptured.v1',
    payload: new Uint8Array(bytes),
    timestamp: offset,
  })),
  positions: offsets.map((offset) => ({ topic, partition: offset % 2, offset })),
})

const FILE = () => 99
const offsetsOf = (latest: Latest, from: number, limits: Partial<typeof ALL> = {}): number[] | undefined =>
  latest.scan('turns', { ...ALL, ...limits, from })?.records.map(({ offset }) => offset)

test('what was written is handed on from where it is asked for, within the limits', () => {
  const latest = new Latest()
  latest.add(written([7, 8, 9]), FOLLOWED)
  assert.deepEqual(offsetsOf(latest, 7), [7, 8, 9])
  assert.deepEqual(offsetsOf(latest, 8, { to: 9 }), [8])
  assert.deepEqual(offsetsOf(latest, 7, { maxRecords: 2 }), [7, 8])
  assert.deepEqual(offsetsOf(latest, 7, { maxBytes: 11 }), [7, 8])
  assert.equal(latest.scan('turns', { ...ALL, from: 7, maxRecords: 2 })?.next, 9)
  assert.equal(latest.end('turns', FILE), 10)
})

test('what lies before it, a partition and a key are the file’s', () => {
  const latest = new Latest()
  latest.add(written([7, 8]), FOLLOWED)
  assert.equal(offsetsOf(latest, 6), undefined)
  assert.equal(latest.scan('turns', { ...ALL, from: 7, partition: 1 }), undefined)
  assert.equal(latest.scan('turns', { ...ALL, from: 7, partition: 1, key: 'k7' }), undefined)
  assert.equal(latest.end('scores', FILE), 99)
})

test('behind a gap nothing from before it is handed on', () => {
  const latest = new Latest()
  latest.add(written([1, 2]), FOLLOWED)
  latest.add(written([4]), FOLLOWED)
  assert.equal(offsetsOf(latest, 1), undefined)
  assert.deepEqual(offsetsOf(latest, 4), [4])
})

test('where it is not known what was written, the file says', () => {
  const latest = new Latest()
  latest.add(written([1]), FOLLOWED)
  latest.clear()
  assert.equal(latest.end('turns', FILE), 99)
  assert.equal(offsetsOf(latest, 1), undefined)
})

test('nothing is held that everybody has had, that nobody follows, or beyond 4 MiB', () => {
  const latest = new Latest()
  latest.add(written([1, 2, 3]), FOLLOWED)
  latest.forgetBelow('turns', 3)
  assert.equal(offsetsOf(latest, 2), undefined)
  assert.deepEqual(offsetsOf(latest, 3), [3])
  latest.add(written([0, 1], { topic: 'scores' }), FOLLOWED)
  assert.equal(latest.scan('scores', ALL), undefined)
  assert.equal(latest.end('scores', FILE), 2)
  latest.add(written([4, 5, 6, 7], { bytes: 1.5 * 2 ** 20 }), FOLLOWED)
  assert.equal(offsetsOf(latest, 5), undefined)
  assert.deepEqual(offsetsOf(latest, 6, { maxBytes: Infinity }), [6, 7])
  latest.add(written([8]), FOLLOWED)
  assert.deepEqual(offsetsOf(latest, 8), [8])
})

test('a store gives what is held, else what the file says', () => {
  const asked: string[] = []
  const rows = {
    scan: (topic: Topic, { from }) => {
      asked.push(`${topic} ${from}`)
      return { records: [], next: from }
    },
    end: (topic: Topic) => {
      asked.push(topic)
      return 99
    },
  } as Partial<Store> as Store
  const latest = new Latest()
  const store = withLatest(rows, latest)
  assert.equal(store.end('turns'), 99)
  latest.add(written([5]), FOLLOWED)
  assert.equal(store.end('turns'), 6)
  assert.equal(store.scan('turns', { ...ALL, from: 5 }).records.length, 1)
  store.scan('turns', { ...ALL, from: 4 })
  assert.deepEqual(asked, ['turns', 'turns 4'])
})

test('the end of a topic that nobody writes to is read from the file once, and again when it is not known what was written', () => {
  let asked = 0
  const rows = { end: () => 40 + (asked += 1) } as Partial<Store> as Store
  const latest = new Latest()
  const store = withLatest(rows, latest)
  assert.deepEqual([store.end('weights'), store.end('weights')], [41, 41])
  latest.clear()
  assert.equal(store.end('weights'), 42)
  // What the file said may already hold a transaction of which this process is told next.
  latest.add(written([40, 41], { topic: 'weights' }), FOLLOWED)
  assert.equal(store.end('weights'), 42)
  latest.add(written([42], { topic: 'weights' }), FOLLOWED)
  assert.deepEqual([store.end('weights'), asked], [43, 2])
})
