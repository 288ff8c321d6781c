import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ValueDigest } from './value-digest.ts'

const digest = (value: unknown): string => new ValueDigest().add(value).end()
const LONG = 'é words '.repeat(2000)

test('the digest does not depend on the order of keys or on undefined fields', () => {
  assert.equal(digest({ a: 1, b: [null, 'x', LONG] }), digest({ b: [null, 'x', LONG], a: 1, c: undefined }))
})

test('different values have different digests, even if their concatenated texts are equal', () => {
  const values = [
    ['ab', 'c'],
    ['a', 'bc'],
    'abc',
    ['abc'],
    [['ab'], 'c'],
    { ab: 'c' },
    { a: 'bc' },
    ['1'],
    [1],
    [1, 2],
    [12],
    [true],
    ['true'],
    [null],
    [],
    {},
    [LONG],
    [`${LONG}x`],
    ['x', LONG],
  ]
  assert.equal(new Set(values.map(digest)).size, values.length)
})

test('a fork continues from the added values and does not change the original', () => {
  const one = new ValueDigest().add(LONG).add('b')
  const other = one.fork().add('c')
  assert.equal(one.add('d').end(), new ValueDigest().add(LONG).add('b').add('d').end())
  assert.equal(other.end(), new ValueDigest().add(LONG).add('b').add('c').end())
})
