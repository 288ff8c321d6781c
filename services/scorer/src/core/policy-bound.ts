/**
 * Tables whose names begin with a policy and a space, with a limit for each policy: beyond it the oldest quarter of the
 * policy's names is forgotten at once.
 */

/** `at`: the larger, the newer. */
type NamedTable = { delete(name: string): unknown } & Iterable<readonly [string, { at: number }]>

/** Names by policy, so that a table is not counted for each score. Only `countAdded` counts. */
const countsByTable = new WeakMap<NamedTable, Map<string, number>>()

const countsOf = (table: NamedTable): Map<string, number> => {
  let counts = countsByTable.get(table)
  if (!counts) {
    countsByTable.set(table, (counts = new Map()))
    for (const [name] of table) {
      const policy = name.slice(0, name.lastIndexOf(' '))
      counts.set(policy, (counts.get(policy) ?? 0) + 1)
    }
  }
  return counts
}

/** Call before a name of the policy is added to the table; returns what to call once it is there. */
export const countAdded = (table: NamedTable, policy: string, most: number): (() => void) => {
  const counts = countsOf(table)
  return () => {
    const own = (counts.get(policy) ?? 0) + 1
    if (own <= most) return void counts.set(policy, own)
    const names = [...table].filter(([name]) => name.startsWith(`${policy} `)).sort(([, a], [, b]) => a.at - b.at)
    const forgotten = names.slice(0, most / 4)
    for (const [name] of forgotten) table.delete(name)
    counts.set(policy, own - forgotten.length)
  }
}
