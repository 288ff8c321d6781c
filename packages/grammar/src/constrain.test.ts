import { test } from 'node:test'
import assert from 'node:assert/strict'
import { isIPv4, isIPv6 } from 'node:net'
import { InstarError } from '@instar/events/errors'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { loadTokenizer } from '@instar/policy/checkpoints/open'
import type { Constraint } from './constraint.ts'
import { parseAnswer } from '@instar/dialects'
import { sample, logSumExp } from '@instar/policy/serve/sample'
import { uniform } from '@instar/policy/serve/random'
import { Constrainer } from './constrainer.ts'
import { keyOf, machineOf } from './constraint.ts'
import type { State } from './machine.ts'
import { TokenTree, type TokenBytes } from './tokens.ts'

const VOCABULARY = 2304
const { tokenizer, endOfTurn } = loadTokenizer('models/tiny')
const tiny = new Constrainer(tokenizer, VOCABULARY, endOfTurn)
const TEXTS = Array.from({ length: VOCABULARY }, (_, id) => tokenizer.decode([id]))

const json = (schema: unknown): Constraint => ({
  json: { field: 'response_format', schema },
  calls: [],
  maxCalls: 1,
  insideReasoning: false,
})
const calls = (parameters: unknown, maxCalls = 1): Constraint => ({
  json: null,
  calls: [{ name: 'f', parameters }],
  maxCalls,
  insideReasoning: false,
})
const asFormats: Record<string, (text: string) => boolean> = {
  date: (text) => new Date(text).toISOString().startsWith(text),
  'date-time': (text) => !Number.isNaN(Date.parse(text)),
  time: (text) => !Number.isNaN(Date.parse(`2024-01-01T${text}`)),
  ipv4: isIPv4,
  ipv6: isIPv6,
  uri: (text) => URL.canParse(text),
  email: (text) => /^[^@\s]+@[^@\s]+\.[a-z]+$/.test(text),
  hostname: (text) => text.length < 254 && URL.canParse(`http://${text}`),
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text),
  duration: (text) => /^P(?!$)(\d+W|\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?$/.test(text),
}
const ajv = new Ajv2020({ strict: false, formats: asFormats })

/** Logits: noise with a bias towards closing characters and the end of the turn, so that answers end. */
const BIAS = TEXTS.map((text, id) => (endOfTurn.includes(id) ? 8 : /["}\]]/.test(text) ? 4 : 0))
const NOISE = Array.from({ length: 4 * VOCABULARY }, (_, i) => 3 * uniform(7, i))
const logitsAt = (seed: number, at: number): Float32Array => {
  const from = Math.floor(uniform(seed, 1000 + at) * 3 * VOCABULARY)
  return Float32Array.from(BIAS, (bias, id) => bias + NOISE[from + id]!)
}

/** Samples an answer; null if it did not end within `maxTokens`. */
function generate(constraint: Constraint, seed: number, maxTokens = 400): string | null {
  const cursor = tiny.begin(constraint)
  const ids: number[] = []
  for (let at = 0; at < maxTokens; at++) {
    const { id } = sample(cursor.masked(logitsAt(seed, at)), { temperature: 1, topK: 0, topP: 1 }, uniform(seed, at), 0)
    if (endOfTurn.includes(id)) return tokenizer.decode(ids)
    ids.push(id)
    cursor.push(id)
  }
  return null
}

/** The number of answers that ended. Asserts that each of them is valid under the schema. */
function countFinished(schema: unknown, seeds: number, maxTokens?: number): number {
  const valid = ajv.compile(schema as object)
  let ended = 0
  for (let seed = 0; seed < seeds; seed++) {
    const text = generate(json(schema), seed, maxTokens)
    if (text === null) continue
    ended++
    assert.ok(valid(JSON.parse(text)), `${JSON.stringify(schema)}: ${text}`)
  }
  return ended
}

const SCHEMAS: Record<string, unknown> = {
  'any object': { type: 'object' },
  anything: {},
  'bounds of numbers': {
    type: 'object',
    properties: {
      a: { type: 'integer', minimum: 3, maximum: 120 },
      b: { type: 'number', exclusiveMinimum: 0.5, maximum: 17.25 },
      c: { type: 'integer', exclusiveMaximum: -7 },
      d: { type: 'number', minimum: 12345678901, maximum: 12345678902 },
      e: { type: 'integer', multipleOf: 7, minimum: 10 },
    },
    required: ['a', 'b', 'c', 'd', 'e'],
  },
  'enum and const': {
    type: 'array',
    items: { enum: ['a', 'b"c', 'é</x\n', 1, -2.5, null, { a: [1] }, true] },
    minItems: 2,
    maxItems: 4,
  },
  types: {
    type: 'object',
    properties: { a: { type: ['string', 'null'], maxLength: 5 }, b: { const: 'x' }, c: { type: 'boolean' } },
    required: ['c', 'b'],
    additionalProperties: false,
  },
  ...Object.fromEntries(Object.keys(asFormats).map((format) => [`format ${format}`, { type: 'string', format }])),
  recursion: {
    $defs: {
      n: {
        type: 'object',
        properties: { v: { type: 'boolean' }, l: { anyOf: [{ $ref: '#/$defs/n' }, { type: 'null' }] } },
        required: ['v', 'l'],
        additionalProperties: false,
      },
    },
    $ref: '#/$defs/n',
  },
  'pattern and length': { type: 'string', pattern: '^[a-z]{2,4}-\\d+(é|中|😀|\\t)*$', maxLength: 12 },
  'pattern anywhere': { type: 'string', pattern: 'fo+|[^\\w\\s]$', maxLength: 30, minLength: 4 },
  'open object': {
    type: 'object',
    properties: { a: { type: 'integer' }, é: { type: 'null' } },
    required: ['a'],
    additionalProperties: { type: 'string', maxLength: 5 },
  },
  'oneOf by a tag': {
    oneOf: [
      { type: 'object', properties: { k: { const: 'a' }, v: { type: 'integer' } }, required: ['k', 'v'] },
      { type: 'object', properties: { k: { enum: ['b', 'c'] }, v: { type: 'boolean' } }, required: ['k', 'v'] },
    ],
  },
  'oneOf by type': { oneOf: [{ type: 'integer' }, { type: 'string', maxLength: 3 }] },
  tuple: {
    type: 'array',
    prefixItems: [{ type: 'integer', minimum: -5, maximum: 5 }, { type: 'boolean' }],
    items: { type: 'null' },
    maxItems: 4,
  },
  allOf: {
    allOf: [
      { type: 'object', properties: { a: { type: 'integer', minimum: 3 } }, required: ['a'] },
      { properties: { a: { maximum: 9 }, b: { type: 'null' } }, required: ['b'] },
    ],
  },
  'anyOf with siblings': {
    type: 'object',
    properties: { a: { type: 'boolean' } },
    required: ['a'],
    anyOf: [{ properties: { b: { type: 'null' } }, required: ['b'] }, { properties: { c: { type: 'boolean' } } }],
  },
  'a record': {
    type: 'object',
    propertyNames: { type: 'string', maxLength: 3 },
    additionalProperties: { type: 'boolean' },
  },
  'names of a list': {
    type: 'object',
    propertyNames: { enum: ['a', 'b', 'c'] },
    properties: { d: { type: 'null' } },
    additionalProperties: { type: 'boolean' },
    required: ['a'],
  },
  'names of no kind': { type: 'object', propertyNames: { minLength: 4, maxLength: 3 } },
  'a format by its pattern': { type: 'string', format: 'starts_with', pattern: '^ab.{0,5}$' },
  'a name that is there': { type: 'object', required: ['x'], additionalProperties: { type: 'boolean' } },
}

for (const [name, schema] of Object.entries(SCHEMAS)) {
  test(`${name}: answers are valid under the schema`, () => assert.ok(countFinished(schema, 30) >= 12))
}

/** A random schema. */
function anySchema(seed: number): unknown {
  let n = 0
  const dice = (sides: number): number => Math.floor(uniform(seed, n++) * sides)
  const maybe = <T>(value: T): T[] => (dice(2) === 0 ? [value] : [])
  const some = (fields: Record<string, unknown>): Record<string, unknown> =>
    Object.fromEntries(Object.entries(fields).flatMap((field) => maybe(field)))
  const make = (depth: number): unknown => {
    const kind = dice(depth > 2 ? 5 : 9)
    const low = dice(40) - 20
    switch (kind) {
      case 0:
        return { type: 'string', ...some({ minLength: dice(4), maxLength: 4 + dice(8) }) }
      case 1:
        return { type: 'integer', ...some({ minimum: low, exclusiveMaximum: low + 3 + dice(500) }) }
      case 2:
        return { type: 'number', ...some({ exclusiveMinimum: low / 4, maximum: low / 4 + 0.125 + dice(50) }) }
      case 3:
        return { enum: ['x', `"${'é\\\t'[dice(3)]}`, dice(10), null].slice(dice(3)) }
      case 4:
        return { type: ['boolean', 'null'].slice(dice(2)) }
      case 5:
        return { anyOf: Array.from({ length: 1 + dice(3) }, () => make(depth + 1)) }
      case 6:
        return { type: 'array', items: make(depth + 1), maxItems: 2 + dice(2), ...some({ minItems: dice(3) }) }
      default: {
        const names = ['a', 'b "c"', 'é', '$', 'long name', 'a2'].slice(0, 1 + dice(6))
        return {
          type: 'object',
          properties: Object.fromEntries(names.map((name) => [name, make(depth + 1)])),
          required: names.filter(() => dice(2) === 0),
          ...some({ additionalProperties: dice(2) === 0 ? false : make(depth + 2) }),
        }
      }
    }
  }
  return make(0)
}

test('answers are valid under 300 random schemas', () => {
  let ended = 0
  for (let seed = 0; seed < 300; seed++) ended += countFinished(anySchema(seed), 2, 200)
  assert.ok(ended > 450, String(ended))
})

test('a token is allowed exactly if its bytes are; the end of the turn exactly if the JSON is complete', () => {
  const tree = new TokenTree(tokenizer, VOCABULARY, endOfTurn)
  for (const [i, schema] of Object.values(SCHEMAS).entries()) {
    const machine = machineOf(json(schema), tree.symbols)
    let state = machine.start
    for (let at = 0; at < 25; at++) {
      const mask = tree.allowed(machine, state)
      const open: number[] = []
      for (let id = 0; id < VOCABULARY; id++) {
        const isAllowed = ((mask[id >> 5]! >> (id & 31)) & 1) === 1
        const expected = endOfTurn.includes(id)
          ? state.accepts
          : tokenizer.bytesOf(id).length > 0 && tree.follow(machine, state, id) !== null
        assert.equal(isAllowed, expected, `${TEXTS[id]} at ${at} of ${JSON.stringify(schema)}`)
        if (isAllowed && !endOfTurn.includes(id)) open.push(id)
      }
      if (open.length === 0) break
      state = tree.follow(machine, state, open[Math.floor(uniform(i, at) * open.length)]!)!
    }
  }
})

test('log-probabilities are normalized over the allowed tokens; others are not in the alternatives', () => {
  const cursor = tiny.begin(json({ enum: ['yes', 'no'] }))
  cursor.push(TEXTS.indexOf('"'))
  const logits = logitsAt(1, 0)
  const masked = cursor.masked(logits)
  const allowed = [...masked.keys()].filter((id) => masked[id]! > -Infinity)
  assert.deepEqual(
    allowed.map((id) => TEXTS[id]).filter((text) => !'yes"'.startsWith(text!) && !'no"'.startsWith(text!)),
    [],
  )
  for (const temperature of [0.7, 1]) {
    const total = logSumExp(
      Float32Array.from(allowed, (id) => logits[id]!),
      temperature,
    )
    const drawn = sample(masked, { temperature, topK: 0, topP: 1 }, 0.5, 20)
    assert.ok(Math.abs(drawn.logprob - (logits[drawn.id]! / temperature - total)) < 1e-9)
    assert.ok(
      drawn.top.length <= allowed.length &&
        drawn.top.every(({ id, logprob }) => allowed.includes(id) && Number.isFinite(logprob)),
    )
  }
})

test("calls are parsed as calls: no string contains the closing tag, and tags are the model's added tokens", () => {
  const parameters = {
    type: 'object',
    properties: { a: { type: 'string', pattern: '^</tool_call>.?$' }, 'b</tool_call>': { enum: ['</tool_call>'] } },
    required: ['a', 'b</tool_call>'],
  }
  const valid = ajv.compile(parameters)
  for (let seed = 0; seed < 10; seed++) {
    const text = generate(calls(parameters, 3), seed)
    assert.ok(text !== null)
    const { content, toolCalls } = parseAnswer(text)
    assert.equal(content, '')
    assert.ok(toolCalls.length >= 1 && toolCalls.length <= 3)
    for (const call of toolCalls) assert.ok(call.name === 'f' && valid(JSON.parse(call.arguments)), call.arguments)
  }
  const tree = new TokenTree(tokenizer, VOCABULARY, endOfTurn)
  const machine = machineOf(calls(parameters), tree.symbols)
  assert.deepEqual(
    [...tree.allowed(machine, machine.start)].flatMap((word, i) =>
      Array.from({ length: 32 }, (_, bit) => (((word >> bit) & 1) === 1 ? [i * 32 + bit] : [])).flat(),
    ),
    [tokenizer.id('<tool_call>')],
  )
})

test('the number of calls is at most maxCalls', () => {
  const tree = new TokenTree(tokenizer, VOCABULARY, endOfTurn)
  const call = [
    tokenizer.id('<tool_call>')!,
    ...tokenizer.encode('\n{"name": "f", "arguments": {}}\n'),
    tokenizer.id('</tool_call>')!,
  ]
  const taken = (maxCalls: number, count: number): boolean => {
    const machine = machineOf(calls({ type: 'object', properties: {} }, maxCalls), tree.symbols)
    let state: State | null = machine.start
    for (const id of Array.from({ length: count }, (_, i) => [
      ...(i === 0 ? [] : tokenizer.encode('\n')),
      ...call,
    ]).flat())
      state = state && tree.follow(machine, state, id)
    return state?.accepts ?? false
  }
  assert.deepEqual(
    [0, 1, 2].map((count) => taken(1, count)),
    [false, true, false],
  )
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((count) => taken(3, count)),
    [false, true, true, true, false],
  )
})

test('open reasoning must be closed; a model with a token for reasoning may begin with it', () => {
  const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte))
  const utf8 = new TextEncoder()
  const added = ['<think>', '</think>'].map((content, i) => ({
    id: 257 + i,
    content,
    special: false,
    lstrip: false,
    rstrip: false,
  }))
  const thinker: TokenBytes = {
    added,
    bytesOf: (id) => bytes[id] ?? utf8.encode(added.find((token) => token.id === id)?.content ?? ''),
  }
  const tree = new TokenTree(thinker, 259, [256])
  const accepts = (insideReasoning: boolean, ...isAllowed: (string | number)[]): boolean => {
    const machine = machineOf({ ...json({ type: 'integer' }), insideReasoning }, tree.symbols)
    const state = isAllowed
      .flatMap((part) => (typeof part === 'number' ? [part] : [...utf8.encode(part)]))
      .reduce((at: typeof machine.start | null, id) => at && tree.follow(machine, at, id), machine.start)
    return state?.accepts ?? false
  }
  assert.ok(accepts(false, '12'))
  assert.ok(accepts(false, 257, 'hm </thi', 258, '\n\n12'))
  assert.ok(accepts(true, 'hm', 258, '12'))
  assert.ok(accepts(true, 'hm <</think>12'))
  assert.ok(!accepts(true, '12'))
  assert.ok(!accepts(false, '<think>', 258, '12'), 'the tag is one token')
})

test('tokens that are parts of characters, and byte fallback tokens, are followed', () => {
  const utf8 = new TextEncoder()
  const words = ['▁{"', '"}', '": "', 'é"', '\u4e2d', '😀"', '"a']
  const form: TokenBytes = {
    added: [],
    bytesOf: (id) => (id < 256 ? Uint8Array.of(id) : utf8.encode((words[id - 256] ?? '').replaceAll('▁', ' '))),
  }
  const size = 256 + words.length + 1
  const constrainer = new Constrainer(form, size, [size - 1])
  const valid = ajv.compile({ type: 'string', pattern: '^[é中😀\\u07ff-\\u0801]{1,3}$' })
  for (let seed = 0; seed < 40; seed++) {
    const cursor = constrainer.begin(json({ type: 'string', pattern: '^[é中😀\\u07ff-\\u0801]{1,3}$' }))
    const out: number[] = []
    for (let at = 0; at < 30; at++) {
      const { id } = sample(
        cursor.masked(Float32Array.from({ length: size }, (_, i) => uniform(seed * 100 + at, i))),
        { temperature: 1, topK: 0, topP: 1 },
        uniform(seed, at),
        0,
      )
      if (id === size - 1) break
      out.push(...form.bytesOf(id))
      cursor.push(id)
    }
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(out))
    assert.ok(valid(JSON.parse(text)), text)
  }
})

const refused = (constraint: Constraint, message: RegExp): void => {
  assert.throws(
    () => {
      keyOf(constraint)
      machineOf(constraint, new Map())
    },
    (error) => error instanceof InstarError && error.code === 'bad_request' && message.test(error.message),
  )
}

test('unsupported keywords and schemas without values are refused with their name', () => {
  for (const [schema, message] of [
    [{ not: {} }, /"not" at #/],
    [{ type: 'object', patternProperties: {} }, /patternProperties/],
    [{ if: {} }, /"if"/],
    [{ type: 'array', contains: {} }, /contains/],
    [{ type: 'array', uniqueItems: true }, /uniqueItems/],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, /oneOf/],
    [{ type: 'number', multipleOf: 0.1 }, /multipleOf/],
    [{ type: 'string', format: 'iri' }, /format/],
    [{ enum: ['a'], minLength: 2 }, /minLength/],
    [{ type: 'string', pattern: '(a)\\1' }, /pattern/],
    [{ type: 'string', pattern: '\\bfoo' }, /pattern/],
    [{ type: 'string', pattern: '(' }, /pattern/],
    [{ $ref: 'https://example.com' }, /\$ref/],
    [{ $ref: '#/nothing' }, /\$ref/],
    [{ type: 'object', minProperties: 3 }, /minProperties/],
    [
      { allOf: [{ properties: { a: {} }, additionalProperties: false }, { properties: { b: {} } }] },
      /additionalProperties/,
    ],
    [{ type: 'text' }, /#\/type/],
    [
      { type: 'object', properties: { a: { properties: { b: { nullable: true } } } } },
      /"nullable" at #\/properties\/a\/properties\/b/,
    ],
    [{ type: 'string', minLength: 4, maxLength: 3 }, /no value/],
    [{ type: 'string', pattern: '^a$', minLength: 2 }, /no value/],
    [{ type: 'integer', minimum: 0.1, maximum: 0.9 }, /no value/],
    [false, /no value/],
    [{ $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }, /no value/],
  ] as const)
    refused(json(schema), message)
})

test('adversarial schemas are refused or compiled within 10 s of CPU', () => {
  const nested = (depth: number): unknown => (depth === 0 ? {} : { type: 'array', items: nested(depth - 1) })
  const defs = (of: (i: number) => unknown): unknown => ({
    $ref: '#/$defs/0',
    $defs: { ...Object.fromEntries(Array.from({ length: 40 }, (_, i) => [i, of(i)])), 40: { type: 'null' } },
  })
  const many = (count: number, of: (i: number) => unknown): unknown => ({
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, of(i)])),
  })
  const before = process.cpuUsage()
  refused(json(nested(800)), /deep/)
  refused(json(nested(140)), /too large/)
  refused(json(defs((i) => ({ allOf: [{ $ref: `#/$defs/${i + 1}` }, { $ref: `#/$defs/${i + 1}` }] }))), /too large/)
  refused(json({ enum: Array.from({ length: 30_000 }, (_, i) => `value ${i}`) }), /too large/)
  refused(json(many(3000, (i) => ({ type: 'integer', minimum: i, maximum: 123_456_789 }))), /too large: minimum /)
  refused(
    json(many(3000, (i) => ({ type: 'integer', exclusiveMinimum: i, exclusiveMaximum: 123_456_789 }))),
    /too large: exclusiveMinimum /,
  )
  // Bounds without a number are analysed once for all properties.
  machineOf(json(many(3900, () => ({ type: 'number', minimum: 1.1234561, maximum: 1.1234562 }))), new Map())
  refused(json(many(300, (i) => ({ type: 'string', maxLength: 8000 - i }))), /too large/)
  for (const pattern of [
    '^((a{1,1000}){1,1000}){1,1000}$',
    '^.*a.{20}$',
    '^(.{0,1000}){0,3}$',
    `${'('.repeat(60)}a${')'.repeat(60)}`,
    'a'.repeat(3000),
  ])
    refused(json({ type: 'string', pattern }), /pattern/)
  refused(json({ $ref: '#/%zz' }), /refers to a part that does not exist/)
  const numbers = (from: number): number[] => Array.from({ length: 30_000 }, (_, i) => from + i)
  refused(json({ type: Array.from({ length: 25_000 }, () => 'integer'), enum: numbers(0) }), /type/)
  machineOf(json({ oneOf: [{ enum: numbers(0) }, { enum: numbers(40_000) }] }), new Map())
  // A chain of rules in the order that needs most passes of markProductive.
  machineOf(
    json({
      type: 'object',
      properties: Object.fromEntries(
        Array.from({ length: 1000 }, (_, i) => [
          `p${i}`,
          {
            type: 'array',
            minItems: 1,
            maxItems: 2,
            items: i === 0 ? { type: 'null' } : { $ref: `#/properties/p${i - 1}` },
          },
        ]),
      ),
    }),
    new Map(),
  )
  // Patterns with exponential backtracking are ordinary automata.
  for (const pattern of ['^(a+)+$', '^(a|a)*b$', '^(x+x+)+y$']) machineOf(json({ type: 'string', pattern }), new Map())
  // The schema is exponential when expanded, but each part is compiled once.
  machineOf(
    json(defs((i) => ({ type: 'array', prefixItems: [{ $ref: `#/$defs/${i + 1}` }, { $ref: `#/$defs/${i + 1}` }] }))),
    new Map(),
  )
  const { user } = process.cpuUsage(before)
  assert.ok(user < 10_000_000, `${user} µs of CPU`)
})

test('merging schemas has a limit of work: by properties, values, references and keywords', () => {
  const named = (count: number, of: (i: number) => unknown, prefix = 'p'): Record<string, unknown> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`${prefix}${i}`, of(i)]))
  const times = (count: number, of: (i: number) => unknown): unknown[] => Array.from({ length: count }, (_, i) => of(i))
  const text = { type: 'string' }
  const before = process.cpuUsage()
  for (const schema of [
    // Each was compiled in 3 to 200 s of the thread that samples everybody's answers.
    { allOf: times(3000, (i) => ({ properties: { [`p${i}`]: text } })) },
    { allOf: times(2000, () => ({ $ref: '#/$defs/a' })), $defs: { a: { properties: named(3000, () => text) } } },
    {
      allOf: times(5000, (i) => ({ $ref: `#/$defs/${i % 2}` })),
      $defs: { 0: { properties: named(3000, () => text) }, 1: { properties: named(3000, () => text, 'q') } },
    },
    { allOf: times(4000, () => ({ $ref: '#/$defs/a' })), $defs: { a: { enum: times(30_000, (i) => `v${i}`) } } },
    { allOf: times(4000, () => ({ $ref: '#/$defs/a' })), $defs: { a: named(30_000, () => 1, 'x-') } },
    { enum: times(9000, (i) => `value number ${i}`), anyOf: times(1000, () => text) },
  ])
    refused(json(schema), /too large: (allOf|enum) /)
  machineOf(json({ allOf: times(200, (i) => ({ properties: { [`p${i}`]: text }, required: [`p${i}`] })) }), new Map())
  // A list of names is compared with the properties in linear time.
  machineOf(
    json({ properties: named(9000, () => true), propertyNames: { enum: times(20_000, (i) => `n${i}`) } }),
    new Map(),
  )
  const { user } = process.cpuUsage(before)
  assert.ok(user < 10_000_000, `${user} µs of CPU`)
})

test('answers under schemas with many similar alternatives end', () => {
  const list = (maxItems: number): unknown => ({ type: 'array', items: { $ref: '#' }, minItems: 1, maxItems })
  assert.ok(
    countFinished({ anyOf: [list(3), list(4), list(5), { type: 'integer', minimum: 0, maximum: 9 }] }, 6, 300) >= 0,
  )
  assert.ok(
    countFinished(
      { anyOf: Array.from({ length: 200 }, (_, i) => ({ type: 'string', minLength: i % 20, maxLength: i })) },
      4,
    ) > 0,
  )
})

test('the bytes of a vocabulary are read once, also if it lacks a byte', () => {
  let bytesOfCalls = 0
  const without: TokenBytes = { added: [], bytesOf: (id) => (bytesOfCalls++, Uint8Array.from(id === 0x7b ? [] : [id])) }
  const constrainer = new Constrainer(without, 256, [])
  const anything = json({ type: 'integer' })
  for (let i = 0; i < 3; i++)
    assert.throws(
      () => constrainer.begin(anything),
      (error) =>
        error instanceof InstarError &&
        error.code === 'bad_request' &&
        error.details['field'] === 'response_format' &&
        /no token for each byte/.test(error.message),
    )
  assert.equal(bytesOfCalls, 256)
})

test('a vocabulary without the first bytes of planes that Unicode does not use is enough, except for their characters', () => {
  // As SmolLM2's.
  const unused = new Set([0xf1, 0xf2])
  const without: TokenBytes = { added: [], bytesOf: (id) => Uint8Array.from(id > 255 || unused.has(id) ? [] : [id]) }
  const constrainer = new Constrainer(without, 257, [256])
  const allowed = (cursor: ReturnType<Constrainer['begin']>): number[] =>
    [...cursor.masked(new Float32Array(257)).entries()].flatMap(([id, logit]) => (logit === 0 ? [id] : []))
  const text = constrainer.begin(json({ type: 'string' }))
  text.push('"'.charCodeAt(0))
  const inText = allowed(text)
  assert.ok(inText.includes(0xf0) && inText.includes(0x41) && !inText.includes(0xf1))
  const lacking = constrainer.begin(json({ const: '\u{50000}' }))
  lacking.push('"'.charCodeAt(0))
  assert.throws(() => allowed(lacking), { code: 'bad_request', message: /that the tokenizer of this model lacks/ })
})

test('cached token masks stay within their limit and are freed with their constraint', () => {
  const constrainer = new Constrainer(tokenizer, VOCABULARY, endOfTurn)
  const compiled = constrainer.compile(json({ type: 'string', maxLength: 30 }))
  const states = (): number => (compiled as unknown as { masks: Map<unknown, unknown> }).masks.size
  const cursor = constrainer.begin(json({ type: 'string', maxLength: 30 }))
  const [quote, letter] = ['"', 'a'].map((text) => TEXTS.indexOf(text)) as [number, number]
  cursor.push(quote)
  for (let i = 0; i < 20; i++) {
    cursor.masked(new Float32Array(VOCABULARY))
    cursor.push(letter)
  }
  assert.equal(states(), 20)
  compiled.setMaxBytes((5 * VOCABULARY) / 8)
  assert.equal(states(), 5)
  cursor.masked(new Float32Array(VOCABULARY))
  assert.equal(states(), 5)
  assert.equal(constrainer.compile(json({ type: 'string', maxLength: 30 })), compiled)
  for (let i = 0; i < 16; i++) constrainer.compile(json({ type: 'string', maxLength: i + 1 }))
  assert.notEqual(constrainer.compile(json({ type: 'string', maxLength: 30 })), compiled)
})

test('the work of one step has a limit whatever number of alternatives is nested', () => {
  const items = { $ref: '#/$defs/a' }
  const alike = Array.from({ length: 300 }, (_, i) => ({ type: 'array', items, maxItems: i + 1 }))
  const machine = machineOf(json({ $defs: { a: { anyOf: alike } }, ...items }), new Map())
  let state: State | null = machine.start
  for (let depth = 1; depth <= 10; depth += 1) {
    const before = machine.work
    state = machine.step(state, '['.charCodeAt(0))
    assert.ok(state)
    // 128 threads are advanced and 128 kept, each with a few nodes; without the limit it would be 128 x 300.
    assert.ok(machine.work - before < 2000, `${machine.work - before} at depth ${depth}`)
  }
})
