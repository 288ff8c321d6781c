import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptySession, type SessionState } from '@instar/events'
import { hasPlainFields } from './session-table.ts'
import { packFields, unpackFields } from './sessions.ts'
import { fromBytes, toBytes } from './value.ts'

test('a session keeps its outcome in a snapshot, whatever number it is', () => {
  for (const value of [0.25, Number.NaN, Infinity, -Infinity, -0]) {
    const session: SessionState = { ...emptySession('s'), outcome: { value, record: 'r', task: null, at: 1 } }
    const bytes = toBytes(packFields(session), hasPlainFields(session))
    const read = unpackFields(fromBytes(bytes) as ReturnType<typeof packFields>, 's')
    assert.deepEqual(read.outcome, session.outcome)
  }
})
