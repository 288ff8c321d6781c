import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FreezeRow, Lineage, MoveRow, RefusalRow, UpdateRow, VersionRow } from '../rows.ts'
import { withOlder } from './older-lineage.ts'

const at = (n: number): string => new Date(1_000 * n).toISOString()
/** Rows of these numbers; `status` tells which reading they are of. */
const part = (numbers: readonly number[], status: string, next: string | null): Lineage => ({
  branches: [],
  versions: numbers.map((version) => ({ version, status }) as VersionRow),
  updates: numbers.map((number) => ({ number, reason: status }) as UpdateRow),
  moves: numbers.map((seq) => ({ seq, why: status }) as MoveRow),
  freezes: numbers.map((n): FreezeRow => ({ frozen: n % 2 === 0, why: status, who: 'Eve', at: at(n) })),
  refusals: numbers.map((n) => ({ branch: 'b', reason: status, at: at(n) }) as RefusalRow),
  next,
})

test('older rows follow the newest, each once and as it was read last', () => {
  const whole = withOlder(part([9, 8, 7], 'new', at(7)), part([7, 6, 5], 'old', at(5)))
  const expected = [9, 8, 7, 6, 5]
  assert.deepEqual(
    [
      whole.versions.map((row) => row.version),
      whole.updates.map((row) => row.number),
      whole.moves.map((row) => row.seq),
    ],
    [expected, expected, expected],
  )
  assert.deepEqual(
    whole.freezes.map((row) => row.at),
    expected.map(at),
  )
  assert.deepEqual(
    whole.refusals.map((row) => row.at),
    expected.map(at),
  )
  assert.deepEqual(
    whole.versions.map((row) => row.status),
    ['new', 'new', 'new', 'old', 'old'],
  )
  assert.equal(whole.next, at(5))
  assert.equal(withOlder(whole, part([5, 4], 'older', null)).next, null)
  const later = withOlder(part([11, 10], 'newest', at(10)), whole)
  assert.deepEqual(
    later.moves.map((row) => row.seq),
    [11, 10, ...expected],
    'what was shown stays',
  )
})
