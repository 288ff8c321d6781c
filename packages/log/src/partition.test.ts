import { FLOW, TOPICS } from '@instar/events/flow'
import assert from 'node:assert/strict'
import test from 'node:test'
import { defaultCounts, murmur2, newLogCounts, partitionCounts, partitionOf } from './partition.ts'

test('murmur2 returns the values of the Java client', () => {
  // org.apache.kafka.common.utils.UtilsTest.testMurmur2
  const figures: [string, number][] = [
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ]
  for (const [text, hash] of figures) assert.equal(murmur2(Buffer.from(text)), hash, text)
})

test('a partition is the hash without its sign bit modulo the count', () => {
  assert.equal(partitionOf('21', 100), (-973932308 & 0x7fffffff) % 100)
  assert.equal(partitionOf('abc', 8), 479470107 % 8)
  const used = new Set(Array.from({ length: 1000 }, (_, i) => partitionOf(`session-${i}`, 8)))
  assert.deepEqual(
    [...used].sort((a, b) => a - b),
    [0, 1, 2, 3, 4, 5, 6, 7],
  )
})

test('partition counts are those of the flow table unless configured', () => {
  assert.deepEqual(partitionCounts(), Object.fromEntries(TOPICS.map((topic) => [topic, FLOW[topic].partitions])))
  assert.equal(partitionCounts({ turns: 3 }).turns, 3)
  for (const count of [0, -1, 1.5, NaN, 70_000]) assert.throws(() => partitionCounts({ turns: count }), /cannot have/)
})

test('a new log with three replicas has 64 partitions of turns unless configured, with fewer 8', () => {
  const turnsOf = (replication: number): number => newLogCounts(replication).turns
  assert.deepEqual([1, 2, 3, 5].map(turnsOf), [8, 8, 64, 64])
  assert.deepEqual(newLogCounts(3), { ...newLogCounts(1), turns: 64 })
  assert.deepEqual([newLogCounts(3, { turns: 12 }).turns, newLogCounts(3, { scores: 8 }).turns], [12, 64])
  assert.deepEqual([defaultCounts('turns'), defaultCounts('scores')], [[8, 64], [4]])
})
