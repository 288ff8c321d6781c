import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BranchRow, VersionRow } from '../rows.ts'
import { BRANCHES, branchStatus, OF_BRANCH, placed, placedBranches } from './lineage-layout.ts'

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

const branch = (name: string, version: number, started_from: number | null, promoted = false): BranchRow => ({
  name,
  version,
  started_from,
  promoted,
  of_all: 1,
  published_at: new Date(0).toISOString(),
  figures: null,
})

test('a branch has a lane of its own below the versions and begins beside the version from which it starts', () => {
  const versions = placed(
    [null, 0, 1, 1].map(
      (parent, version) => ({ version, parent, status: version === 3 ? 'serving' : 'superseded' }) as VersionRow,
    ),
  )
  assert.deepEqual(
    versions.map(({ lane }) => lane),
    [0, 0, 1, 0],
  )
  const shown = placedBranches(versions, [branch('new', 3, 1), branch('old', 1, 0), branch('lost', 2, 7)])
  assert.deepEqual(
    shown.map(({ row, from, xs, lane }) => [row.name, from?.row.version ?? null, xs, lane]),
    [
      ['new', 1, [2, 3, 4], 2],
      ['old', 0, [1], 3],
      ['lost', null, [0, 1], 4],
    ],
  )
  assert.deepEqual(placedBranches(versions, [branch('none', 0, 3)])[0]!.xs, [4], 'without a version: its beginning')
  assert.equal(placedBranches(versions, [branch('long', 500, 0)])[0]!.xs.length, OF_BRANCH)
  const many = Array.from({ length: 50 }, (_, i) => branch(`b${i}`, 1, 0))
  assert.deepEqual(
    placedBranches(versions, many).map(({ row }) => row.name),
    many.slice(0, BRANCHES).map(({ name }) => name),
  )
})

test('what became of a branch is said in words', () => {
  const refused = [{ branch: 'refused' }]
  assert.deepEqual(
    [branch('a', 2, 0, true), branch('refused', 2, 0), branch('b', 2, 0), branch('c', 0, 0)].map((row) =>
      branchStatus(row, refused),
    ),
    ['promoted', 'promotion rejected', 'not promoted', 'no version yet'],
  )
})
