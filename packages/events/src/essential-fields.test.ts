import assert from 'node:assert/strict'
import { test } from 'node:test'
import { essentialFields, valueIn } from './essential-fields.ts'

const schema = (...fields: { name: string; essential?: boolean }[]): string => JSON.stringify({ fields })
const [A, B, C] = [{ name: 'a' }, { name: 'b', essential: true }, { name: 'c', essential: true }]

test('a reader that knows an essential field reads later versions with a value in it; one that does not, stops', () => {
  const later = schema(A, B, C)
  assert.deepEqual(essentialFields(later, schema(A, B)), ['c'])
  assert.deepEqual(essentialFields(later, later), [])
  assert.deepEqual(essentialFields(later, schema(A)), ['b', 'c'])
  assert.equal(
    valueIn(['b', 'c'], () => ({ a: 1, b: null, c: 0 })),
    'c',
  )
  assert.equal(
    valueIn(['b', 'c'], () => ({ a: 1, b: null, c: null })),
    undefined,
  )
})
