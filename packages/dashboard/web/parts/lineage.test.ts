import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { VersionRow } from '../rows.ts'
import { placed } from './lineage.ts'

/** Versions by their parents, of which `head` serves: the lane of each, in the order of the versions. */
const lanes = (parents: readonly (number | null)[], head: number): number[] =>
  placed(
    parents
      .map(
        (parent, version) => ({ version, parent, status: version === head ? 'serving' : 'superseded' }) as VersionRow,
      )
      .toReversed(),
  ).map(({ lane, x, row }) => {
    assert.equal(x, row.version, 'one step after the version before it')
    return lane
  })

test('the head and its ancestors are in the first lane, what a rollback left is below', () => {
  assert.deepEqual(lanes([null], 0), [0])
  assert.deepEqual(lanes([null, 0, 1, 2], 3), [0, 0, 0, 0])
  assert.deepEqual(lanes([null, 0, 1, 2], 1), [0, 0, 1, 1], 'what was left stays together')
  assert.deepEqual(lanes([null, 0, 1, 1, 3], 4), [0, 0, 1, 0, 0], 'learning went on from version 1')
  assert.deepEqual(lanes([null, 0, 0, 0, 3], 4), [0, 1, 2, 0, 0], 'two rollbacks, two lanes')
  assert.deepEqual(lanes([null, 0, 1, 2, 2, 3], 0), [0, 1, 1, 1, 2, 1], 'a fork in a lane that was left')
})
