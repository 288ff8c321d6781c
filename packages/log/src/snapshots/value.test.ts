import assert from 'node:assert/strict'
import test from 'node:test'
import { fromBytes, toBytes } from './value.ts'

test('values are serialized as JSON or by v8, and both are read', () => {
  const plain = ['a', 1.5, null, true, ['ü \ud800', {}], { key: null }]
  const bytes = toBytes(plain, true)
  assert.equal(Buffer.from(bytes).toString(), JSON.stringify(plain))
  assert.deepEqual(fromBytes(bytes), plain)
  const other = new Map<string, unknown>([
    ['bytes', new Uint8Array([1, 2])],
    ['zero', -0],
    ['none', Number.NaN],
  ])
  assert.deepEqual(fromBytes(toBytes(other, false)), other)
})

test('the first byte of v8.serialize differs from that of any JSON', () => {
  for (const value of ['', '\u00ff', 0, -1, null, true, false, [], {}])
    assert.deepEqual(fromBytes(toBytes(value, true)), value)
  assert.equal(toBytes(null, false)[0], 0xff)
})
