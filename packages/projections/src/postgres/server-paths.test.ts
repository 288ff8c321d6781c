/** Folders for temporary files are shared with other users. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../../test/kit/database.ts'

test(
  'a folder that another user made in the folder for temporary files is not looked into; a pipe in our own is not waited for',
  { timeout: 60_000, skip: process.getuid?.() !== 0 && 'needs root' },
  () => {
    using folder = temporaryFolder()
    const temporary = join(folder.path, 'tmp')
    const own = join(folder.path, 'own')
    for (const [path, mode] of [
      [folder.path, 0o755],
      [temporary, 0o1777],
      [own, 0o700],
    ] as const) {
      mkdirSync(path, { recursive: true })
      chmodSync(path, mode)
    }
    const made = [65_534, 61_200, 0].map((uid) => {
      const path = join(temporary, `ipg-of${uid}`)
      mkdirSync(path)
      if (uid === 0) execFileSync('mkfifo', [join(path, 'belongs-to')])
      else writeFileSync(join(path, 'belongs-to'), '/nowhere')
      chownSync(path, uid, uid)
      utimesSync(path, 0, 0)
      return path
    })
    // In a process of its own: a reading that waits for a pipe would hold this one up for ever.
    const source = `import { makePaths } from ${JSON.stringify(new URL('server-paths.ts', import.meta.url).href)}
makePaths(${JSON.stringify(join(own, 'postgres'))})`
    const script = join(folder.path, 'make.ts')
    writeFileSync(script, source)
    const { status, signal } = spawnSync(process.execPath, [...process.execArgv, script], {
      env: { TMPDIR: temporary },
      timeout: 20_000,
    })
    assert.deepEqual([status, signal], [0, null])
    assert.deepEqual(
      made.map((path) => existsSync(path)),
      [true, true, true],
    )
  },
)
