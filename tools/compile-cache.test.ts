import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { compileCache } from './compile-cache.ts'

test('a cache of more entries than the limit is emptied', (t) => {
  const folder = join(mkdtempSync(join(tmpdir(), 'instar-cache-')), 'compiled')
  t.after(() => rmSync(join(folder, '..'), { recursive: true }))
  assert.equal(compileCache(folder, 3), folder)
  mkdirSync(join(folder, 'v24'), { recursive: true })
  for (const name of ['a', 'b']) writeFileSync(join(folder, 'v24', name), '')
  assert.equal(compileCache(folder, 3), folder)
  assert.deepEqual(readdirSync(join(folder, 'v24')), ['a', 'b'])
  writeFileSync(join(folder, 'v24', 'c'), '')
  assert.equal(compileCache(folder, 3), folder)
  assert.equal(existsSync(folder), false)
})

test('a module that changed is not taken from the cache, also where its length is the same', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-cache-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const [program, module, cache] = ['program.mts', 'module.mts', 'cache'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  writeFileSync(program, "import { value } from './module.mts'\nconsole.log(value)\n")
  const env = { ...process.env, NODE_COMPILE_CACHE: cache }
  const printed = [1, 2, 2, 1].map((value) => {
    writeFileSync(module, `export const value: number = ${value}\n`)
    return spawnSync(process.execPath, [program], { env, encoding: 'utf8' }).stdout.trim()
  })
  assert.deepEqual(printed, ['1', '2', '2', '1'])
  // Types removed and code, of two modules.
  assert.equal(readdirSync(join(cache, readdirSync(cache)[0]!)).length, 4)
})
