import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { writeLines } from './write-lines.ts'

const never = new AbortController().signal

test('an export that fails or is aborted leaves no file, so that the same command can be repeated', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'turns.jsonl')
  const fails = async function* () {
    yield 'x'.repeat(1 << 20)
    throw new Error('the log is away')
  }
  await assert.rejects(writeLines(path, fails, never), { code: 'bad_request' })
  assert.equal(existsSync(path), false)
  const stop = new AbortController()
  const aborts = async function* () {
    yield 'x'.repeat(1 << 20)
    stop.abort()
    yield 'more'
  }
  await assert.rejects(writeLines(path, aborts, stop.signal), { code: 'aborted' })
  assert.equal(existsSync(path), false)
  const works = async function* () {
    yield 'one\n'
  }
  await writeLines(path, works, never)
  let asked = false
  const notAsked = () => {
    asked = true
    return works()
  }
  await assert.rejects(writeLines(path, notAsked, never), { code: 'bad_request', message: /exists already/ })
  assert.equal(asked, false, 'the log is not folded for a file that cannot be created')
  assert.equal(readFileSync(path, 'utf8'), 'one\n')
})
