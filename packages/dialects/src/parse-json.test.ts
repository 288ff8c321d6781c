import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parsedBytes, parseJson } from './request.ts'

const parse = (json: string) => parseJson(Buffer.from(json))

test('a body of more than 100000 objects and lists, or 4000000 values, is refused before it is parsed', () => {
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

test('a body of more than 400000 fields, or 20000 of one object, is refused before it is parsed', () => {
  const wide = (count: number): string => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`
  const list = (count: number, of: string): string => `{"a":[${Array.from({ length: count }, () => of).join(',')}]}`
  assert.equal(Object.keys(parse(wide(20_000))).length, 20_000)
  assert.throws(() => parse(wide(20_001)), { code: 'bad_request', message: /20000 of one/ })
  // Fields of inner objects are none of the outer one.
  assert.equal((parse(list(19, wide(20_000)))['a'] as unknown[]).length, 19)
  assert.equal((parse(list(3999, `{"b":{"c":1},${wide(98).slice(1)}`))['a'] as unknown[]).length, 3999)
  assert.throws(() => parse(list(20, wide(20_000))), { code: 'bad_request', message: /400000 fields/ })
  assert.throws(() => parse(`{"a":${wide(20_001)}}`), { code: 'bad_request' })
  // 1.5 million fields took 6 s to parse and 3 s to copy.
  const body = Buffer.from(wide(1_500_000))
  const from = process.cpuUsage()
  assert.throws(() => parseJson(body), { code: 'bad_request' })
  assert.equal(parsedBytes(body), 0)
  assert.ok(process.cpuUsage(from).user < 500_000)
})

test('brackets and commas inside a string are not counted', () => {
  for (const text of ['[{,'.repeat(5_000_000), '\\"[{,'.repeat(500_000), `${'\\'.repeat(200_001)}"[`]) {
    assert.equal(parse(JSON.stringify({ a: text, b: [1] }))['a'], text)
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
  test(`the memory of a parsed body is estimated from its bytes: ${what}`, () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const bytes = Buffer.from(body)
    const bodies: unknown[] = []
    // The median of five, since a collection also frees earlier garbage.
    const [, , used] = Array.from({ length: 5 }, () => {
      collect()
      const before = process.memoryUsage().heapUsed
      bodies.push(parseJson(bytes))
      collect()
      return process.memoryUsage().heapUsed - before
    }).toSorted((one, other) => one - other) as [number, number, number]
    const estimated = parsedBytes(bytes)
    assert.ok(used <= 1.1 * estimated, `${used} bytes, estimated ${estimated}`)
    // V8 stores equal strings (`messages`) once; the estimate counts each.
    assert.ok(estimated <= 12 * used, `${used} bytes, estimated ${estimated}`)
    assert.equal(bodies.length, 5)
  })
