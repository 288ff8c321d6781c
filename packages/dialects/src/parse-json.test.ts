import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJson } from './request.ts'

const parse = (json: string) => parseJson(Buffer.from(json))

test('a body of more parts or values than anybody means is refused before anything is made of it', () => {
  const lists = (count: number): string => `{"a":[${'[],'.repeat(count - 3)}[]]}`
  const numbers = (commas: number): string => `{"a":[${'1,'.repeat(commas)}1]}`
  assert.equal((parse(lists(100_000))['a'] as unknown[]).length, 99_998)
  assert.throws(() => parse(lists(100_001)), { code: 'bad_request', message: /100000 objects and lists/ })
  assert.throws(() => parse(`{"a":[${'{},'.repeat(100_000)}1]}`), { code: 'bad_request' })
  assert.equal((parse(numbers(4_000_000))['a'] as unknown[]).length, 4_000_001)
  assert.throws(() => parse(numbers(4_000_001)), { code: 'bad_request', message: /4000000 values/ })
  const from = performance.now()
  assert.throws(() => parse(lists(10_000_000)), { code: 'bad_request' })
  assert.ok(performance.now() - from < 2000, `${performance.now() - from} ms`)
})

test('what only looks like parts inside a text is none', () => {
  for (const said of ['[{,'.repeat(5_000_000), '\\"[{,'.repeat(500_000), `${'\\'.repeat(200_001)}"[`]) {
    assert.equal(parse(JSON.stringify({ a: said, b: [1] }))['a'], said)
  }
  assert.throws(() => parse(`{"a":"${'\\\\'.repeat(60_000)}","b":[${'[],'.repeat(100_000)}1]}`), {
    code: 'bad_request',
    message: /objects and lists/,
  })
})
