import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parsedBytes, parseJson } from './request.ts'

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

const COUNT = 20_000
const many = (one: (i: number) => string): string => Array.from({ length: COUNT }, (_, i) => one(i)).join()
const name = (i: number): string => `"${(i + 50_000).toString(36)}"`
const BODIES: Readonly<Record<string, string>> = {
  'empty lists': `{"a":[${many(() => '[]')}]}`,
  'empty objects': `{"a":[${many(() => '{}')}]}`,
  'objects of one field': `{"a":[${many((i) => `{${name(i)}:1}`)}]}`,
  'lists of one number': `{"a":[${many(() => '[1.5]')}]}`,
  numbers: `{"a":["",${many(() => '1.5')}]}`,
  texts: `{"a":[${many(name)}]}`,
  fields: `{${many((i) => `${name(i)}:1`)}}`,
  messages: `{"a":[${many(() => '{"role":"user","content":"yes"}')}]}`,
  'a long text': `{"a":"${'x'.repeat(4_000_000)}"}`,
  'a long text with a wide character': `{"a":"漢${'x'.repeat(4_000_000)}"}`,
  'a long text with a wide character as an escape': `{"a":"\\u6f22${'x'.repeat(4_000_000)}"}`,
}

for (const [what, body] of Object.entries(BODIES))
  test(`what a parsed body takes in memory is known before it is parsed: ${what}`, () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const bytes = Buffer.from(body)
    const kept: unknown[] = []
    // A collection also frees what others left: the median of five.
    const [, , taken] = Array.from({ length: 5 }, () => {
      collect()
      const before = process.memoryUsage().heapUsed
      kept.push(parseJson(bytes))
      collect()
      return process.memoryUsage().heapUsed - before
    }).toSorted((one, other) => one - other) as [number, number, number]
    const said = parsedBytes(bytes)
    assert.ok(taken <= 1.1 * said, `${taken} bytes, not ${said}`)
    // Equal texts (`messages`) are one text in V8's heap, and are counted each.
    assert.ok(said <= 12 * taken, `${taken} bytes, not ${said}`)
    assert.equal(kept.length, 5)
  })
