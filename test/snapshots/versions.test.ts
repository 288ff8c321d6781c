/** A state that is stored has a version: a build that changes the state, or its fold, without a new number fails here. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  compared,
  emptyTables,
  goldenLog,
  goldenVersions,
  NAMES,
  recordedSources,
  sourcesOf,
  VERSIONS,
  versionFileOf,
} from './golden-states.ts'

for (const name of NAMES) {
  const { number, migrations } = VERSIONS[name]

  test(`${name}: this build folds the state of the golden snapshot of each version, and continues from it; no table of it is empty`, async () => {
    const log = await goldenLog()
    const goldens = goldenVersions(name)
    assert.equal(goldens.at(-1), number, `write it: node bootstrap.cjs test/snapshots/golden.ts`)
    for (const version of goldens) {
      const { golden, again, from, whole } = await compared(log, name, version)
      const reachable = Array.from({ length: number - version }, (_, i) => version + i).every((at) => migrations[at])
      const changed = `the state of version ${version} is another: raise STATE_VERSION in ${versionFileOf(name)}`
      if (reachable) assert.deepEqual(golden.rows, again.rows, changed)
      assert.deepEqual(from.rows, whole.rows, changed)
      if (version === number) assert.deepEqual(emptyTables({ golden, from }), [], 'tables without rows')
      // Without a way of migrations the log is read from its start, and the process says so.
      assert.equal(from.read < whole.read, reachable, `version ${version}`)
      assert.equal(from.lines.length, version === number ? 0 : 1, from.lines.join('\n'))
    }
  })

  test(`${name}: its fold's sources are those of its version`, () => {
    assert.equal(
      sourcesOf(name),
      recordedSources()[name],
      `the sources of the ${name}'s state have changed. If the state or its fold has, raise STATE_VERSION in ` +
        `${versionFileOf(name)}, with a migration where the old state has what the new one needs. ` +
        'Then, or if neither has: node bootstrap.cjs test/snapshots/golden.ts',
    )
  })
}

test('the golden snapshots have lists of several entries, so that a fold that keeps the last one alone is noticed', async () => {
  const log = await goldenLog()
  const rowsOf = async (name: 'scorer' | 'trainer', table: string): Promise<never[]> =>
    Object.values((await compared(log, name, VERSIONS[name].number)).golden.rows[table] ?? {}) as never[]
  const most = (lists: readonly (readonly unknown[])[]): number => Math.max(...lists.map(({ length }) => length))
  const journals = (await rowsOf('trainer', 'batches policy')).flatMap(
    ({ journal }: { journal: { scored: unknown[]; requested: unknown[] } | null }) => journal ?? [],
  )
  assert.deepEqual(
    {
      opinions: most((await rowsOf('scorer', 'records')).map(({ opinions }) => opinions)),
      seen: most((await rowsOf('scorer', 'seen')).map(({ times }) => times)),
      asked: most((await rowsOf('scorer', 'questions')).map(({ scores }) => scores)),
      claimed: most((await rowsOf('scorer', 'claims')).flatMap(({ values }) => Object.values(values) as unknown[][])),
      scored: most(journals.map(({ scored }) => scored)),
      requested: most(journals.map(({ requested }) => requested)),
    },
    { opinions: 5, seen: 4, asked: 7, claimed: 2, scored: 2, requested: 2 },
  )
})
