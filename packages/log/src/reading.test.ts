import assert from 'node:assert/strict'
import { test } from 'node:test'
import { partitionOf } from './partition.ts'
import { endOf, readStore } from './reading.ts'
import type { Scan, Store } from './store.ts'

test('a topic whose ends are not all numbers is unreadable, not empty', () => {
  assert.equal(endOf('weights', []), 0)
  assert.equal(endOf('weights', [3, 0, 7]), 7)
  const sparse = [3]
  sparse[2] = 1
  for (const ends of [[3, NaN], [Infinity], sparse])
    assert.throws(() => endOf('weights', ends), { code: 'data_unreadable', message: /weights/ })
})

test('a read of a key from a time looks for it in the partition of the key alone', async () => {
  const [searched, scans]: [number[], Scan[]] = [[], []]
  const store = {
    ends: () => [900, 901, 902, 903],
    starts: () => [0, 0, 0, 0],
    firstSince(_, partition, time) {
      searched.push(partition)
      return time
    },
    scan(_, scan) {
      scans.push(scan)
      return { records: [], next: scan.to }
    },
  } as Partial<Store> as Store
  const partition = partitionOf('key', 4)
  for await (const _ of readStore(store, 'blobs', { key: 'key', from: { time: 7 } }, async () => undefined));
  assert.deepEqual(searched, [partition])
  assert.deepEqual(
    scans.map(({ from, to }) => [from, to]),
    [[7, 900 + partition]],
  )
})
