import assert from 'node:assert/strict'
import { test } from 'node:test'
import { userIdParts } from './agents.ts'

test('a user id has parts, and one that is longer than any is a plain name', () => {
  const id = (more: string): string => JSON.stringify({ account_uuid: 'anna', session_id: 's-1', more })
  assert.deepEqual(userIdParts(id('')), { user: 'anna', session: 's-1' })
  assert.equal(userIdParts(id('x'.repeat(5000))), null)
})
