import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomBytes } from './random.ts'

test('no bytes twice, whatever lengths are asked for, and none taken back', () => {
  const given = Array.from({ length: 5000 }, (_, i) => randomBytes(8 + (i % 9)))
  const large = [randomBytes(4096), randomBytes(4097), randomBytes(10_000)]
  assert.deepEqual(
    large.map(({ length }) => length),
    [4096, 4097, 10_000],
  )
  const hex = given.map((bytes) => Buffer.from(bytes).toString('hex'))
  assert.deepEqual(new Set(hex.map((text) => text.slice(0, 16))).size, 5000)
  assert.deepEqual(
    given.map(({ length }) => length),
    given.map((_, i) => 8 + (i % 9)),
  )
  assert.ok(large.every((bytes) => new Set(bytes).size > 250))
})
