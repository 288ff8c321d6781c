import { deepEqual, equal } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { ERRORS } from '@instar/events/errors'
import { ERRORS_PAGE, errorsPage } from './errors.ts'

const REPAIR = 'generate it with: node bootstrap.cjs test/docs/errors.ts'

test('docs/errors.md and the table of errors have the same codes', async () => {
  const page = await readFile(ERRORS_PAGE, 'utf8')
  const codes = [...page.matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1])
  deepEqual(codes, Object.keys(ERRORS), REPAIR)
})

test('docs/errors.md has the text of the table for each code', async () => {
  equal(await readFile(ERRORS_PAGE, 'utf8'), errorsPage(), REPAIR)
})

test('each error names an action, and its status is an HTTP error status', () => {
  for (const [code, { status, meaning, todo }] of Object.entries(ERRORS)) {
    equal(status >= 400 && status <= 599, true, code)
    equal(meaning.endsWith('.') && meaning.length > 10 && todo.length > 10, true, code)
  }
})
