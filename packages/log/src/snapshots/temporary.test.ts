/** The temporary file of a command: deleted however the command ends. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '../index.ts'
import { openTemporaryTables } from './temporary.ts'

const INDEX = new URL('../index.ts', import.meta.url).href

for (const [how, end] of [
  ['exits at once, as at a second stop signal', 'process.exit(130)'],
  ['ends with an error that nothing catches', "throw new Error('x')"],
] as const)
  test(`a command that ${how} leaves no temporary file`, (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'instar-temporary-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const script = `import { openMemoryLog, openTemporaryTables } from ${JSON.stringify(INDEX)}
      import { readdirSync } from 'node:fs'
      await openTemporaryTables(openMemoryLog())
      console.log(readdirSync(process.env.TMPDIR).filter((name) => name.startsWith('instar-')).length)
      setImmediate(() => { ${end} })`
    const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      env: { ...process.env, TMPDIR: folder },
      encoding: 'utf8',
    })
    assert.deepEqual([ended.stdout.trim(), ended.status === 0], ['1', false], ended.stderr)
    assert.deepEqual(readdirSync(folder), [])
  })

test('closing deletes the file, and nothing is left to do when the process exits', async () => {
  const before = process.listenerCount('exit')
  const tables = await openTemporaryTables(openMemoryLog())
  assert.equal(process.listenerCount('exit'), before + 1)
  await tables.close()
  assert.equal(process.listenerCount('exit'), before)
})
