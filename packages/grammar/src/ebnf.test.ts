import { test } from 'node:test'
import assert from 'node:assert/strict'
import { InstarError } from '@instar/events/errors'
import type { Constraint } from './constraint.ts'
import { parseAnswer } from '@instar/dialects'
import { uniform } from '@instar/policy/serve/random'
import { machineOf } from './constraint.ts'
import { ebnfOf } from './ebnf.ts'
import type { State } from './machine.ts'

type Part =
  | { type: 'word'; text: string[] }
  | { type: 'set'; spans: [string, string][] }
  | { type: 'rule'; name: string }
  | { type: 'all' | 'any'; parts: Part[] }
  | { type: 'times'; part: Part; min: number; max: number }

/** A parser and matcher of the notation: rules, literals, classes, groups, `|`, `*`, `+`, `?`, `{m,n}`. */
class Reader {
  private readonly text: string
  private at = 0
  readonly rules = new Map<string, Part>()

  constructor(text: string) {
    this.text = text
    for (const line of text.split('\n')) {
      const [, name = '', body = ''] = /^([a-z][a-z0-9-]*) ::= (.*)$/.exec(line) ?? assert.fail(line)
      assert.ok(!this.rules.has(name), `${name} stands twice`)
      const reader = new Body(body)
      this.rules.set(name, reader.any())
      assert.equal(reader.at, body.length, `${name}: ${body.slice(reader.at)}`)
    }
    this.at = 0
  }

  matches(text: string): boolean {
    const characters = Array.from(text)
    const known = new Map<Part, Map<number, Set<number>>>()
    const accepts = (part: Part, at: number): Set<number> => {
      const places = known.get(part) ?? new Map<number, Set<number>>()
      known.set(part, places)
      const before = places.get(at)
      if (before) return before
      const found = new Set<number>()
      places.set(at, found)
      for (const end of follow(part, at)) found.add(end)
      return found
    }
    const follow = (part: Part, at: number): Iterable<number> => {
      switch (part.type) {
        case 'word':
          return part.text.every((one, i) => characters[at + i] === one) ? [at + part.text.length] : []
        case 'set': {
          const point = characters[at]?.codePointAt(0) ?? -1
          return part.spans.some(([from, to]) => point >= from.codePointAt(0)! && point <= to.codePointAt(0)!)
            ? [at + 1]
            : []
        }
        case 'rule':
          return accepts(this.rules.get(part.name) ?? assert.fail(`no rule ${part.name}`), at)
        case 'any':
          return new Set(part.parts.flatMap((one) => [...accepts(one, at)]))
        case 'all':
          return part.parts.reduce(
            (places, one) => new Set([...places].flatMap((place) => [...accepts(one, place)])),
            new Set([at]),
          )
        case 'times': {
          const found = new Set<number>()
          let places = new Set([at])
          for (let count = 0; places.size > 0 && count <= part.max; count++) {
            if (count >= part.min) for (const place of places) found.add(place)
            places = new Set(
              [...places]
                .flatMap((place) => [...accepts(part.part, place)])
                .filter((place) => count < part.min || !found.has(place)),
            )
          }
          return found
        }
      }
    }
    return accepts(this.rules.get('root') ?? assert.fail('no root'), 0).has(characters.length)
  }
}

class Body {
  private readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text
  }

  any(): Part {
    const parts = [this.all()]
    while (this.text.startsWith(' | ', this.at)) {
      this.at += 3
      parts.push(this.all())
    }
    return { type: 'any', parts }
  }

  private all(): Part {
    const parts: Part[] = []
    while (this.at < this.text.length && this.text[this.at] !== ')' && !this.text.startsWith(' | ', this.at)) {
      if (this.text[this.at] === ' ') this.at++
      parts.push(this.repeated(this.one()))
    }
    assert.ok(parts.length > 0, this.text)
    return { type: 'all', parts }
  }

  private one(): Part {
    const rest = this.text.slice(this.at)
    if (rest.startsWith('(')) {
      this.at++
      const part = this.any()
      assert.equal(this.text[this.at++], ')')
      return part
    }
    const word = /^"((?:[^"\\]|\\.)*)"/.exec(rest)
    const set = /^\[((?:[^\]\\]|\\.)*)\]/.exec(rest)
    const name = /^[a-z][a-z0-9-]*/.exec(rest)
    const found = word ?? set ?? name ?? assert.fail(rest)
    this.at += found[0].length
    if (word) return { type: 'word', text: characters(word[1] ?? '') }
    if (!set) return { type: 'rule', name: found[0] }
    // An escape is one character; a bare `-` is a range.
    const spans: [string, string][] = [
      ...(set[1] ?? '').matchAll(/((?:\\u....|\\U........|\\.|[^\\]))(?:-(\\u....|\\U........|\\.|[^\\]))?/gu),
    ].map(([, from = '', to = from]) => [characters(from)[0]!, characters(to)[0]!])
    return { type: 'set', spans }
  }

  private repeated(part: Part): Part {
    const [written, sign, min, comma, max] = /^(?:([*+?])|\{(\d+)(,)?(\d+)?\})/.exec(this.text.slice(this.at)) ?? ['']
    if (written === '') return part
    this.at += written.length
    if (sign !== undefined) return { type: 'times', part, min: sign === '+' ? 1 : 0, max: sign === '?' ? 1 : Infinity }
    return {
      type: 'times',
      part,
      min: Number(min),
      max: max !== undefined ? Number(max) : comma === undefined ? Number(min) : Infinity,
    }
  }
}

const ENDS: Record<string, string> = { n: '\n', r: '\r', t: '\t' }
const characters = (written: string): string[] =>
  Array.from(
    written.replaceAll(
      /\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/g,
      (_, short: string | undefined, long: string | undefined, plain: string | undefined) =>
        (plain && (ENDS[plain] ?? plain)) ?? String.fromCodePoint(parseInt(short ?? long ?? '', 16)),
    ),
  )

const utf8 = new TextEncoder()
const followed = (constraint: Constraint) => {
  const machine = machineOf(constraint, new Map())
  return {
    machine,
    accepts: (text: string): boolean =>
      utf8.encode(text).reduce((state: State | null, byte) => state && machine.step(state, byte), machine.start)
        ?.accepts ?? false,
  }
}

const LIKED = Array.from('"}]>,:{[etrfalsn 0123456789-<_/cokiudmgh', (one) => one.charCodeAt(0))

/** A random word of the machine, byte by byte; null if it did not end. */
const drawn = (constraint: Constraint, seed: number): string | null => {
  const { machine } = followed(constraint)
  const bytes: number[] = []
  let state: State = machine.start
  for (let at = 0; at < 600; at++) {
    if (state.accepts && uniform(seed, 5000 + at) < 0.5) break
    const may = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => machine.step(state, byte) !== null)
    if (may.length === 0) break
    const liked = may.filter((byte) => LIKED.includes(byte))
    const from = liked.length > 0 && uniform(seed, 9000 + at) < 0.9 ? liked : may
    const byte = from[Math.floor(uniform(seed, at) * from.length)]!
    bytes.push(byte)
    state = machine.step(state, byte)!
  }
  return state.accepts ? new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(bytes)) : null
}

const SPOIL = ['"', '}', ' ', '<', '/', '0', ',', 'é', '\n', '\\', '']
const spoiled = (text: string, seed: number): string => {
  const all = Array.from(text)
  all.splice(
    Math.floor(uniform(seed, 1) * all.length),
    uniform(seed, 2) < 0.5 ? 1 : 0,
    SPOIL[Math.floor(uniform(seed, 3) * SPOIL.length)]!,
  )
  return all.join('')
}

const json = (schema: unknown): Constraint => ({
  json: { field: 'response_format', schema },
  calls: [],
  maxCalls: 1,
  insideReasoning: false,
})
const calls = (parameters: unknown, maxCalls = 1): Constraint => ({
  json: null,
  calls: [
    { name: 'f', parameters },
    { name: 'g', parameters: { type: 'object', properties: {} } },
  ],
  maxCalls,
  insideReasoning: false,
})

const SCHEMAS: Record<string, unknown> = {
  numbers: {
    type: 'object',
    properties: {
      a: { type: 'integer' },
      b: { type: 'number' },
      c: { type: 'integer', minimum: -3, maximum: 12 },
      d: { type: 'number', exclusiveMinimum: 0.5, maximum: 2 },
    },
    required: ['a', 'c'],
  },
  words: {
    type: 'object',
    properties: {
      'mood </x>': { enum: ['glad', 'gladly', 'a "b" \\ é 😀', null, 7, { a: [1] }] },
      b: { type: 'boolean' },
    },
    required: ['mood </x>'],
    additionalProperties: false,
  },
  lists: {
    type: 'object',
    properties: {
      a: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 3 },
      b: { type: 'array', prefixItems: [{ const: 1 }, { const: 2 }], items: { const: 3 }, minItems: 1 },
      c: { type: 'array', prefixItems: [{ const: 1 }], minItems: 2, maxItems: 4 },
      d: { type: 'array', items: { const: 1 }, minItems: 2 },
      e: { type: 'array', maxItems: 0 },
    },
    required: ['a', 'b', 'd'],
  },
  texts: {
    type: 'object',
    properties: {
      a: { type: 'string' },
      b: { type: 'string', pattern: '^[a-c<]+(/x|é)?$' },
      c: { type: 'string', format: 'date' },
      d: { type: 'string', pattern: '-' },
    },
    required: ['a', 'b'],
  },
  open: { type: 'object', properties: { a: { const: 1 } }, additionalProperties: { type: 'boolean' } },
  names: { type: 'object', propertyNames: { pattern: '^[ab]+$' }, additionalProperties: { const: 1 } },
  itself: {
    $ref: '#/$defs/tree',
    $defs: {
      tree: {
        type: 'object',
        properties: {
          left: { anyOf: [{ $ref: '#/$defs/tree' }, { type: 'null' }] },
          n: { type: 'integer', minimum: 0 },
        },
        required: ['n'],
      },
    },
  },
  anything: { type: 'object' },
}

for (const [name, schema] of Object.entries(SCHEMAS)) {
  for (const constraint of [json(schema), calls(schema, 2)]) {
    test(`${name}, ${constraint.json ? 'as JSON' : 'in a call'}: the EBNF accepts exactly what the machine accepts`, () => {
      const reader = new Reader(ebnfOf(constraint, false))
      const { accepts } = followed(constraint)
      let [taken, left] = [0, 0]
      for (let seed = 0; seed < 60; seed++) {
        const text = drawn(constraint, seed)
        if (text === null) continue
        assert.ok(reader.matches(text), text)
        taken++
        for (let again = 0; again < 6; again++) {
          const other = spoiled(text, 100 * seed + again)
          assert.equal(reader.matches(other), accepts(other), other)
          left += accepts(other) ? 0 : 1
        }
      }
      assert.ok(taken >= 10 && left >= 30, `${taken} ${left}`)
    })
  }
}

test('a call has the markup that the parser of answers reads; no string of it contains `</`', () => {
  const reader = new Reader(
    ebnfOf(
      calls({
        type: 'object',
        properties: { a: { type: 'string' }, b: { type: 'string', minLength: 2, maxLength: 4 } },
      }),
      false,
    ),
  )
  const counted = (min: number, max: number | undefined, length: number): boolean =>
    new Reader(
      ebnfOf(json({ type: 'string', minLength: min, ...(max === undefined ? {} : { maxLength: max }) }), false),
    ).matches(`"${'é'.repeat(length)}"`)
  for (const [min, max] of [
    [0, 31],
    [1, 80],
    [33, 100],
    [64, 64],
    [70, 400],
    [40, undefined],
  ] as const) {
    const taken = Array.from({ length: 420 }, (_, length) => length).filter(
      (length) =>
        (length < 3 || [min, max ?? 0].some((edge) => Math.abs(length - edge) < 3) || length % 31 === 0) &&
        counted(min, max, length) !== (length >= min && length <= (max ?? Infinity)),
    )
    assert.deepEqual(taken, [], `${min} to ${max}`)
  }
  const call = (given: string): string => `<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>`
  for (const given of ['{}', '{"a": "x<\\/tool_call><y<"}', '{"b":"é😀"}', '{"b": "\\u003c\\u003C/\\n"}']) {
    assert.ok(reader.matches(call(given)), given)
    const [parsed] = parseAnswer(call(given)).toolCalls
    assert.deepEqual([parsed?.name, parsed?.arguments], ['f', given])
  }
  for (const given of [
    '{"a": "</tool_call>"}',
    '{"a":"<</"}',
    '{"b": "a"}',
    '{"b": "12345"}',
    '{"b": "<a"}',
    '{"b": "\\u003d."}',
    '{"a": "\n"}',
    '{"c": 1}',
  ])
    assert.ok(!reader.matches(call(given)), given)
  assert.ok(!reader.matches(`${call('{}')}\n${call('{}')}`))
  assert.ok(!reader.matches(`Well. ${call('{}')}`))
})

test('reasoning may come before the answer if the model has a token for it; open reasoning must be closed', () => {
  const constraint = json({ type: 'integer' })
  const reasoning = new Reader(ebnfOf(constraint, true))
  for (const text of ['12', '<think></think>12', '<think>a < b </thin </</think>\n\n12'])
    assert.ok(reasoning.matches(text), text)
  for (const text of ['<think>12', '<think></think>\n\n\n12', 'hm</think>12']) assert.ok(!reasoning.matches(text), text)
  assert.ok(!new Reader(ebnfOf(constraint, false)).matches('<think></think>12'))
  const inside = new Reader(ebnfOf({ ...constraint, insideReasoning: true }, true))
  assert.ok(inside.matches('hm é</think>\n12'))
  assert.ok(!inside.matches('12'))
})

test('unsupported keywords, schemas without values and too large schemas are refused with field and keyword', () => {
  const refused = (constraint: Constraint, message: RegExp): void => {
    assert.throws(
      () => ebnfOf(constraint, false),
      (error) => error instanceof InstarError && error.code === 'bad_request' && message.test(error.message),
    )
  }
  refused(
    calls({ type: 'object', properties: { a: { type: 'array', uniqueItems: true } } }),
    /^tools \(f\): The keyword "uniqueItems" at #\/properties\/a/,
  )
  refused(json({ type: 'string', minLength: 9000 }), /^response_format: .*minLength/)
  refused(
    json({ type: 'object', properties: { a: false }, required: ['a'] }),
    /^response_format: The schema allows no value/,
  )
  refused(
    json({ enum: Array.from({ length: 9000 }, (_, i) => `${i}: ${'x'.repeat(10)}`) }),
    /^response_format: The schema is too large/,
  )
})
