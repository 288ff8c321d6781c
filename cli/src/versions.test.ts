import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { initialWeights, weightLine, type VersionState } from '@instar/events'
import { batchFinder, statusesOf, type BatchRow } from './versions.ts'

const lineOf = (parents: readonly (number | null)[], head: number) => {
  const line = weightLine(initialWeights(), 'policy')
  for (const [version, parent] of parents.entries())
    line.versions.set(version, { version, parent, update: version === 0 ? null : `u${version}` } as VersionState)
  line.head = head
  return line
}

test('the head serves, its ancestors are superseded, and other versions are rolled back', () => {
  const statusOf = statusesOf(lineOf([null, 0, 1, 1, 3], 4))
  deepEqual([0, 1, 2, 3, 4].map(statusOf), ['superseded', 'superseded', 'rolled_back', 'superseded', 'serving'])
})

test('a record that names a version as its own ancestor ends the line of ancestors', () => {
  for (const [parents, expected] of [
    [[null, 1], []],
    [[null, 2, 1], [1]],
    [[null, 0, 7], []],
  ] as const) {
    const line = lineOf(parents, parents.length - 1)
    deepEqual(
      parents.flatMap((_, version) => (statusesOf(line)(version) === 'superseded' ? [version] : [])),
      expected,
    )
  }
})

// With a search for each version this takes longer than a file may: 8,000 versions took 9 s.
test('the statuses and batches of 100,000 versions are found in one pass', () => {
  const count = 100_000
  const line = lineOf(
    Array.from({ length: count }, (_, version) => (version === 0 ? null : version - 1)),
    count - 1,
  )
  const batches = Array.from({ length: count }, (_, i) => ({ update: { id: `u${i}` } })) as BatchRow[]
  const [statusOf, batchOf] = [statusesOf(line), batchFinder({ weights: line, batches })]
  let superseded = 0
  for (const version of line.versions.values()) {
    equal(batchOf(version), version.version === 0 ? null : batches[version.version])
    if (statusOf(version.version) === 'superseded') superseded += 1
  }
  equal(superseded, count - 1)
})
