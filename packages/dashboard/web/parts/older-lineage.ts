/** The newest part of the lineage joined with older parts. */
import type { Lineage, OlderLineage } from '../rows.ts'

const joined = <Row>(
  first: readonly Row[],
  then: readonly Row[],
  name: (row: Row) => string | number,
  at: (row: Row) => string | number = name,
): Row[] => {
  const known = new Set(first.map(name))
  return [...first, ...then.filter((row) => !known.has(name(row)))].sort((a, b) =>
    at(a) < at(b) ? 1 : at(a) > at(b) ? -1 : 0,
  )
}

/** Each row once, as `newest` has it, newest first. Goes on where `older` ends. */
export const withOlder = (newest: Lineage, older: OlderLineage): Lineage => ({
  ...newest,
  versions: joined(newest.versions, older.versions, (row) => row.version),
  updates: joined(newest.updates, older.updates, (row) => row.number),
  moves: joined(newest.moves, older.moves, (row) => row.seq),
  freezes: joined(
    newest.freezes,
    older.freezes,
    (row) => `${row.at} ${row.frozen} ${row.who}`,
    (row) => row.at,
  ),
  refusals: joined(
    newest.refusals,
    older.refusals,
    (row) => `${row.at} ${row.branch}`,
    (row) => row.at,
  ),
  next: older.next,
})
