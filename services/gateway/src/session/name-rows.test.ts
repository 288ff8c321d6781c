import assert from 'node:assert/strict'
import { test } from 'node:test'
import { namePrefix, readRow, rowOf, sizeOfRow } from './name-rows.ts'

test('a row gives back its time and session, and no row with any byte changed does', () => {
  for (const session of ['0123456789abcdef0123456789abcdef', 'anna_0123456789abcdef0123456789abcdef', 'né', 'ABCDEF'])
    for (const at of [0, 1_767_225_600_123, 2 ** 48 - 1]) {
      const row = rowOf(namePrefix(7, 'answer x'), at, session)
      assert.deepEqual(readRow(row), { at, session })
      assert.equal(sizeOfRow(session), row.length + 16)
      for (let i = 0; i < row.length; i += 1) {
        const changed = Buffer.from(row)
        changed[i]! ^= 0x10
        assert.equal(readRow(changed), null)
      }
    }
  assert.equal(readRow(Buffer.alloc(3)), null)
  assert.equal(rowOf(namePrefix(1, 'x'), 1, '0123456789abcdef0123456789abcdef').length, 39)
})
