import assert from 'node:assert/strict'
import test from 'node:test'
import type { Topic } from '@instar/events/flow'
import type { Store } from '../store.ts'
import { RecentRecords, withRecentRecords, type WrittenCall } from './recent-records.ts'

const FOLLOWED = new Set<Topic>(['turns'])
const ALL = { from: 0, to: Infinity, maxRecords: 512, maxBytes: 1 << 20 }

const written = (
  offsets: readonly number[],
  { topic = 'turns', bytes = 10 }: { topic?: Topic; bytes?: number } = {},
): WrittenCall => ({
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
const offsetsOf = (recent: RecentRecords, from: number, limits: Partial<typeof ALL> = {}): number[] | undefined =>
  recent.scan('turns', { ...ALL, ...limits, from })?.records.map(({ offset }) => offset)

test('a scan returns the records from its start, within its limits', () => {
  const recent = new RecentRecords()
  recent.add(written([7, 8, 9]), FOLLOWED)
  assert.deepEqual(offsetsOf(recent, 7), [7, 8, 9])
  assert.deepEqual(offsetsOf(recent, 8, { to: 9 }), [8])
  assert.deepEqual(offsetsOf(recent, 7, { maxRecords: 2 }), [7, 8])
  assert.deepEqual(offsetsOf(recent, 7, { maxBytes: 11 }), [7, 8])
  assert.equal(recent.scan('turns', { ...ALL, from: 7, maxRecords: 2 })?.next, 9)
  assert.equal(recent.end('turns', FILE), 10)
})

test('scans that start earlier, or of a partition or key, are left to the file', () => {
  const recent = new RecentRecords()
  recent.add(written([7, 8]), FOLLOWED)
  assert.equal(offsetsOf(recent, 6), undefined)
  assert.equal(recent.scan('turns', { ...ALL, from: 7, partition: 1 }), undefined)
  assert.equal(recent.scan('turns', { ...ALL, from: 7, partition: 1, key: 'k7' }), undefined)
  assert.equal(recent.end('scores', FILE), 99)
})

test('a gap in the offsets drops the records before it', () => {
  const recent = new RecentRecords()
  recent.add(written([1, 2]), FOLLOWED)
  recent.add(written([4]), FOLLOWED)
  assert.equal(offsetsOf(recent, 1), undefined)
  assert.deepEqual(offsetsOf(recent, 4), [4])
})

test('after clear the records and the end are read from the file', () => {
  const recent = new RecentRecords()
  recent.add(written([1]), FOLLOWED)
  recent.clear()
  assert.equal(recent.end('turns', FILE), 99)
  assert.equal(offsetsOf(recent, 1), undefined)
})

test('records that are handled, not subscribed to, or beyond 4 MiB are dropped', () => {
  const recent = new RecentRecords()
  recent.add(written([1, 2, 3]), FOLLOWED)
  recent.forgetBelow('turns', 3)
  assert.equal(offsetsOf(recent, 2), undefined)
  assert.deepEqual(offsetsOf(recent, 3), [3])
  recent.add(written([0, 1], { topic: 'scores' }), FOLLOWED)
  assert.equal(recent.scan('scores', ALL), undefined)
  assert.equal(recent.end('scores', FILE), 2)
  recent.add(written([4, 5, 6, 7], { bytes: 1.5 * 2 ** 20 }), FOLLOWED)
  assert.equal(offsetsOf(recent, 5), undefined)
  assert.deepEqual(offsetsOf(recent, 6, { maxBytes: Infinity }), [6, 7])
  recent.add(written([8]), FOLLOWED)
  assert.deepEqual(offsetsOf(recent, 8), [8])
})

test('a store returns the records in memory, else those of the file', () => {
  const reads: string[] = []
  const rows = {
    scan: (topic: Topic, { from }) => {
      reads.push(`${topic} ${from}`)
      return { records: [], next: from }
    },
    end: (topic: Topic) => {
      reads.push(topic)
      return 99
    },
  } as Partial<Store> as Store
  const recent = new RecentRecords()
  const store = withRecentRecords(rows, recent)
  assert.equal(store.end('turns'), 99)
  recent.add(written([5]), FOLLOWED)
  assert.equal(store.end('turns'), 6)
  assert.equal(store.scan('turns', { ...ALL, from: 5 }).records.length, 1)
  store.scan('turns', { ...ALL, from: 4 })
  assert.deepEqual(reads, ['turns', 'turns 4'])
})

test('the end of a topic is read from the file once, and again after clear', () => {
  let reads = 0
  const rows = { end: () => 40 + (reads += 1) } as Partial<Store> as Store
  const recent = new RecentRecords()
  const store = withRecentRecords(rows, recent)
  assert.deepEqual([store.end('weights'), store.end('weights')], [41, 41])
  recent.clear()
  assert.equal(store.end('weights'), 42)
  // The end in the file may include a transaction whose records are added next.
  recent.add(written([40, 41], { topic: 'weights' }), FOLLOWED)
  assert.equal(store.end('weights'), 42)
  recent.add(written([42], { topic: 'weights' }), FOLLOWED)
  assert.deepEqual([store.end('weights'), reads], [43, 2])
})
