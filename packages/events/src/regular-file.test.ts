import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readRegularFile } from './regular-file.ts'

test('a regular file is read up to the limit; a pipe, a device and a folder are refused at once', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-regular-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const at = (name: string): string => join(folder, name)
  writeFileSync(at('file'), 'Ännchen')
  symlinkSync(at('file'), at('link'))
  assert.deepEqual(
    [readRegularFile(at('file'), 8).toString(), readRegularFile(at('link'), 8).toString()],
    ['Ännchen', 'Ännchen'],
  )
  writeFileSync(at('empty'), '')
  assert.equal(readRegularFile(at('empty'), 0).length, 0)
  assert.throws(() => readRegularFile(at('file'), 7), /it has more than 7 bytes/)
  truncateSync(at('file'), 1 << 30)
  assert.throws(() => readRegularFile(at('file'), 1 << 20), RangeError)
  execFileSync('mkfifo', [at('pipe')])
  for (const path of [at('pipe'), '/dev/zero', folder]) assert.throws(() => readRegularFile(path, 8), TypeError, path)
  assert.throws(() => readRegularFile(at('none'), 8), { code: 'ENOENT' })
})
