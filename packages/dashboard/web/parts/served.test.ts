import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MoveRow, VersionRow } from '../rows.ts'
import { served } from './served.ts'

const at = (seconds: number): string => new Date(1_000 * seconds).toISOString()
const versions = [0, 1, 2].map((version) => ({ version }) as VersionRow)
/** The head after each move, and when. */
const moves = (...all: [to: number, seconds: number][]): MoveRow[] =>
  all.map(([to_version, seconds], seq) => ({ seq, to_version, at: at(seconds) }) as MoveRow).toReversed()
const of = (rows: ReturnType<typeof served>): unknown[] => rows.map((one) => [one.at / 1_000, one.row.version])

test('over time a version has its figures while it serves, also after a rollback', () => {
  const all = { versions, moves: moves([0, 10], [1, 20], [2, 30], [1, 40]) }
  assert.deepEqual(of(served(all, 15_000, 60_000)), [
    [15, 0],
    [20, 1],
    [30, 2],
    [40, 1],
    [60, 1],
  ])
  assert.deepEqual(of(served(all, 50_000, 60_000)), [
    [50, 1],
    [60, 1],
  ])
  assert.deepEqual(of(served(all, 5_000, 40_000)).slice(0, 2), [
    [10, 0],
    [20, 1],
  ])
})

test('a version that is not known has no figures', () => {
  assert.deepEqual(of(served({ versions, moves: moves([0, 10], [7, 20]) }, 0, 30_000)), [
    [10, 0],
    [30, 0],
  ])
  assert.deepEqual(served({ versions, moves: [] }, 0, 30_000), [])
})
