/** The rows of PostgreSQL for the turns that were answered in full; they must equal the ledger. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { psql, until } from './stack.ts'
import type { Ledger } from './talk.ts'

type Row = { turn_id: string; status: string; next_turn_id: string | null; scores: number; batches: number }

const turnsInSql = (): Promise<Row[]> =>
  psql<Row>(`
  select t.turn_id, t.status, t.next_turn_id,
    (select count(*) from all_scores s where s.turn_id = t.turn_id and s.policy = 'policy' and s.revision = 0)::int as scores,
    (select count(*) from all_batch_turns b where b.turn_id = t.turn_id and b.policy = 'policy')::int as batches
  from turns t`)

/**
 * Resolves when PostgreSQL has all answered turns and all turns with a reply are scored; then compares it with the
 * ledger.
 */
export const nothingLost = async (book: Ledger): Promise<void> => {
  ok(book.turns.size > 0, 'nothing was answered')
  const rows = await until('PostgreSQL holds every answered turn, scored', async () => {
    const found = await turnsInSql()
    const known = new Set(found.map((row) => row.turn_id))
    return (
      [...book.turns].every((turn) => known.has(turn)) &&
      found.every((row) => row.next_turn_id === null || row.status !== 'complete' || row.scores > 0) &&
      found
    )
  })
  const mine = rows.filter((row) => book.turns.has(row.turn_id))
  equal(mine.length, book.turns.size, 'every answered turn once')
  deepEqual(
    mine.filter((row) => row.status !== 'complete'),
    [],
  )
  deepEqual(
    rows.filter((row) => row.scores > 1),
    [],
    'no turn is scored twice',
  )
  deepEqual(
    rows.filter((row) => row.batches > 1),
    [],
    'no turn is in two batches',
  )
}
