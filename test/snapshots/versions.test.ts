/** A state that is stored has a version: a build that changes the state, or its fold, without a new number fails here. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { continued, goldenLog, goldenVersions, NAMES, recordedSources, sourcesOf, VERSIONS } from './golden.ts'

for (const name of NAMES) {
  const { number, migrations } = VERSIONS[name]

  test(`${name}: a process that continues from the golden snapshot of each version has the state of a whole fold`, async () => {
    const log = await goldenLog()
    const goldens = goldenVersions(name)
    assert.equal(goldens.at(-1), number, `write it: node bootstrap.cjs test/snapshots/golden.ts`)
    for (const golden of goldens) {
      const [from, whole] = await continued(log, name, golden)
      const reachable = Array.from({ length: number - golden }, (_, i) => golden + i).every((at) => migrations[at])
      assert.deepEqual(
        from.rows,
        whole.rows,
        `the state of version ${golden} is another: raise STATE_VERSION in services/${name}/src/shell/snapshot.ts`,
      )
      assert.ok(Object.keys(whole.rows).length > 100)
      // Without a way of migrations the log is read from its start, and the process says so.
      assert.equal(from.read < whole.read, reachable, `version ${golden}`)
      assert.equal(from.lines.length, golden === number ? 0 : 1, from.lines.join('\n'))
    }
  })

  test(`${name}: its fold's sources are those of its version`, () => {
    assert.equal(
      sourcesOf(name),
      recordedSources()[name],
      `the sources of the ${name}'s state have changed. If the state or its fold has, raise STATE_VERSION in ` +
        `services/${name}/src/shell/snapshot.ts, with a migration where the old state has what the new one needs. ` +
        'Then, or if neither has: node bootstrap.cjs test/snapshots/golden.ts',
    )
  })
}
