/** A dialect's `request`, its zod schema and its JSON Schema accept the same bodies. Bodies are random. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { z } from 'zod'
import { DIALECTS } from '../dialects.ts'
import type { Dialect } from '../dialect.ts'
import type { Fields } from '../fields.ts'
import { mintId } from '../minted.ts'
import { chatBody, countTokensBody, messagesBody, responsesBody } from './index.ts'

const CASES = 6000
const SESSION = 'one'
const TURN = `one.${'5'.repeat(32)}`

/** Reproducible random numbers from 0 to 1 (a linear congruential generator modulo 2³¹). */
const seededRandom = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) / 0x800000
  }
}

type Make = () => unknown
const ABSENT = Symbol('absent')

/** Generators of random values. `invalidRate`: the probability that a value is replaced by an invalid one. */
const makers = (random: () => number, invalidRate: number) => {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const junk = (): unknown =>
    pick<unknown>([
      ABSENT,
      null,
      true,
      false,
      0,
      1,
      -1,
      0.5,
      1.5,
      2,
      3,
      17,
      21,
      1e21,
      -1e300,
      'x',
      '',
      'none',
      'user',
      'message',
      '\n',
      [],
      [''],
      ['a'],
      [null],
      [{}],
      {},
      { type: 'text' },
      { text: 1 },
      { text: 'a' },
      { type: 'refusal' },
      { type: 'image_url', text: 'a' },
      { type: 'file', text: 'a', source: { type: 'text', data: 'a' } },
      { type: 'document', text: 'a' },
      { id: 'x', type: 5 },
    ])
  const or =
    (make: Make): Make =>
    () =>
      random() < invalidRate ? junk() : make()
  const object = (fields: Readonly<Record<string, Make>>): Make =>
    or(() => {
      const made = Object.entries(fields)
        .map(([name, make]) => [name, make()] as const)
        .filter(([, value]) => value !== ABSENT)
      return Object.fromEntries(random() < 0.2 ? [...made, ['unknown_field', unknownValue()]] : made)
    })
  const unknownValue = (): unknown => pick<unknown>([null, 1, 'x', [1], { a: [] }])
  const list = (item: Make, least = 0): Make =>
    or(() => Array.from({ length: least + Math.floor(random() * 3) }, item).filter((value) => value !== ABSENT))
  const one = (...values: unknown[]): Make => or(() => pick(values))
  const either = (...makes: Make[]): Make => or(() => pick(makes)())
  const maybe =
    (make: Make): Make =>
    () =>
      random() < 0.5 ? ABSENT : make()
  /** Fields that 95% of the bodies lack. */
  const rare = (makes: Record<string, Make>): Record<string, Make> =>
    Object.fromEntries(Object.entries(makes).map(([name, make]) => [name, () => (random() < 0.9 ? ABSENT : make())]))
  return { rare, pick, or, object, list, one, either, maybe }
}
type Makers = ReturnType<typeof makers>

const common = ({ maybe, one, rare }: Makers): Record<string, Make> => ({
  model: maybe(one('policy', 'policy@3', null)),
  stream: maybe(one(true, false)),
  temperature: maybe(one(0, 0.7, 2)),
  top_p: maybe(one(1, 0.5)),
  top_k: maybe(one(-1, 0, 40)),
  ...rare({
    frequency_penalty: maybe(one(0, -2, 2, 3)),
    presence_penalty: maybe(one(0.5)),
    repetition_penalty: maybe(one(1.1, 1, 0)),
    min_p: maybe(one(0.1)),
    logit_bias: maybe(one({ 5: -100 }, {}, { 7: 100 }, { x: 1 }, { 7: 101 })),
  }),
})

const chat = (make: Makers): Make => {
  const { object, list, one, either, maybe } = make
  const content = either(
    one('Hi', ''),
    list(
      either(
        object({ type: one('text', 'text', 'input_audio', null), text: one('Hi') }),
        object({ type: one('refusal') }),
      ),
    ),
  )
  const message = object({
    role: one('user', 'system', 'developer', 'assistant', 'tool', 'function'),
    content,
    tool_calls: maybe(list(object({ id: one('call') }))),
    token_ids: maybe(one([1])),
  })
  return object({
    ...common(make),
    messages: list(message, 1),
    tools: maybe(list(object({ type: one('function') }))),
    tool_choice: maybe(one('none', 'auto')),
    stream_options: maybe(object({ include_usage: maybe(one(true)) })),
    n: maybe(one(1, 16)),
    seed: maybe(one(-3, 2 ** 40)),
    max_completion_tokens: maybe(one(1, 5)),
    max_tokens: maybe(one(1, 5)),
    stop: maybe(either(one('a'), list(one('a', 'b')))),
    logprobs: maybe(one(true)),
    top_logprobs: maybe(one(0, 20)),
    user: maybe(one('anna')),
    functions: maybe(list(object({ name: one('f') }))),
  })
}

const messages = (make: Makers): Make => {
  const { object, list, one, either, maybe, pick, rare } = make
  const source = either(
    object({ type: one('text'), data: one('Hi') }),
    object({
      type: one('content'),
      content: either(one('Hi'), list(object({ type: maybe(one('text', 'image')), text: one('Hi') }))),
    }),
    object({ type: one('text', 'content', 'base64'), data: one('Hi'), content: one('Hi') }),
  )
  const document = object({ type: one('document'), title: maybe(one('T')), context: maybe(one('C', 5)), source })
  const texts = either(
    one('Hi'),
    list(either(object({ type: one('text', 'text', 'image', null), text: one('Hi') }), document)),
  )
  const result = object({ type: one('tool_result'), tool_use_id: maybe(one('toolu')), content: maybe(texts) })
  const user = object({
    role: one('user'),
    content: either(
      one('Hi'),
      list(
        either(
          result,
          document,
          object({ type: one('text'), text: one('Hi') }),
          object({ type: one('tool_result'), text: one('Hi') }),
        ),
      ),
    ),
  })
  const assistant = object({
    role: one('assistant'),
    content: either(
      one('Hi'),
      list(
        either(
          object({ type: one('tool_use'), id: one('x'), name: maybe(one('f')), input: maybe(one({})) }),
          object({ type: one('thinking'), thinking: one('t') }),
          object({ type: one('text'), text: one('Hi') }),
        ),
      ),
    ),
  })
  return object({
    ...common(make),
    max_tokens: one(1, 5),
    ...rare({
      thread: maybe(
        either(
          object({ type: one('create') }),
          object({
            type: one('continue', 'fork'),
            previous_message_id: () => pick<unknown>([mintId('msg', SESSION, TURN), 5, null]),
          }),
        ),
      ),
    }),
    system: maybe(texts),
    messages: list(either(user, assistant, object({ role: one('system'), content: texts })), 1),
    tools: maybe(list(object({ name: one('f'), input_schema: maybe(one({})) }))),
    tool_choice: maybe(object({ type: maybe(one('none', 'auto')) })),
    stop_sequences: maybe(list(one('a', 'b'))),
    metadata: maybe(one({ user_id: 'anna' })),
  })
}

const responses = (make: Makers): Make => {
  const { object, list, one, either, maybe, pick } = make
  // The ids are minted, since an unknown id is not an error of the body.
  const id: Make = () => pick([mintId('msg', SESSION, TURN)])
  const content = either(
    one('Hi'),
    list(
      either(
        object({ type: one('output_text', 'input_text', 'input_image', null), text: one('Hi') }),
        object({ type: one('refusal') }),
      ),
    ),
  )
  const item = either(
    object({
      type: maybe(one('message')),
      role: one('user', 'assistant', 'system', 'developer'),
      content: maybe(content),
    }),
    object({
      type: one('function_call', 'custom_tool_call'),
      name: one('f'),
      namespace: maybe(one('n')),
      arguments: maybe(one('{}')),
      input: maybe(one('x')),
      call_id: maybe(one('c')),
    }),
    object({
      type: one('function_call_output', 'custom_tool_call_output'),
      call_id: maybe(one('c')),
      output: maybe(content),
    }),
    object({ type: one('reasoning'), summary: maybe(list(object({ text: one('t') }))) }),
    object({ type: maybe(one('item_reference')), role: maybe(one(null)), id }),
    object({ type: maybe(one('web_search_call', null)) }),
  )
  const tool = either(
    object({ type: one('function', 'custom'), name: one('f') }),
    object({ type: one('namespace'), name: maybe(one('n')), tools: maybe(list(object({ name: one('g') }))) }),
    object({ type: maybe(one('web_search')) }),
  )
  return object({
    ...common(make),
    instructions: maybe(one('Be brief.')),
    input: either(one('Hi'), list(item, 1)),
    previous_response_id: maybe(() => pick<unknown>([mintId('resp', SESSION, TURN), null, 5])),
    tools: maybe(list(tool)),
    tool_choice: maybe(one('none')),
    seed: maybe(one(1)),
    max_output_tokens: maybe(one(1, 5)),
    include: maybe(one(['message.output_text.logprobs'])),
    top_logprobs: maybe(one(0, 20)),
    user: maybe(one('anna')),
    safety_identifier: maybe(one('anna')),
    conversation: maybe(one(null)),
    prompt: maybe(one(null)),
  })
}

const isBody = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether the dialect's `request` accepts the body. Every minted id refers to an answer. */
const accepted = (dialect: Dialect, body: Fields): boolean => {
  try {
    const ids = dialect.references(body)
    if (ids.some((one) => one !== mintId('msg', SESSION, TURN) && one !== mintId('resp', SESSION, TURN))) return true
    const reference = {
      dialect: dialect.name,
      turn: TURN,
      session: SESSION,
      body: { input: 'Hello', messages: [{ role: 'user', content: 'Hello' }] },
      choice: {
        shown: { content: 'Hi', reasoning: '', calls: [] },
        toolCallIds: [],
        finish: 'stop' as const,
        stop: null,
        tokens: [],
      },
    }
    dialect.request(ids.length === 0 ? body : dialect.resolved(body, new Map(ids.map((one) => [one, reference]))))
    return true
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_request') return false
    throw error
  }
}

const SURFACES: [string, (make: Makers) => Make, z.ZodType, (body: Fields) => boolean][] = [
  ['chat', chat, chatBody, (body) => accepted(DIALECTS.chat, body)],
  ['responses', responses, responsesBody, (body) => accepted(DIALECTS.responses, body)],
  ['messages', messages, messagesBody, (body) => accepted(DIALECTS.messages, body)],
  ['count_tokens', messages, countTokensBody, (body) => accepted(DIALECTS.messages, { max_tokens: 1, ...body })],
]

for (const [name, bodies, schema, reader] of SURFACES) {
  test(`${name}: request and schema accept the same bodies`, () => {
    const validate = new Ajv2020({ strict: false }).compile(z.toJSONSchema(schema))
    const seen = { accepted: 0, refused: 0 }
    for (let i = 0; i < CASES; i += 1) {
      const random = seededRandom(i * 7919 + 1)
      random()
      // A quarter of the bodies is valid, half has few invalid values, a quarter has many.
      const body: unknown = JSON.parse(
        JSON.stringify(bodies(makers(random, [0, 0.02, 0.05, 0.15][i % 4]!))() ?? null) ?? 'null',
      )
      if (!isBody(body)) continue
      const accepts = reader(body)
      const text = (): string => JSON.stringify(body)
      assert.equal(schema.safeParse(body).success, accepts, `zod: ${text()}`)
      assert.equal(validate(body), accepts, `JSON Schema: ${text()}`)
      seen[accepts ? 'accepted' : 'refused'] += 1
    }
    assert.ok(seen.accepted > CASES / 4 && seen.refused > CASES / 4, JSON.stringify(seen))
  })
}

test('a schema keeps unknown fields', () => {
  const body = {
    model: 'policy',
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }], name: 'anna' },
    ],
    unknown_field: { deep: [1] },
  }
  assert.deepEqual(chatBody.parse(body), body)
  assert.deepEqual(responsesBody.parse({ input: 'Hi', unknown_field: 1 }), { input: 'Hi', unknown_field: 1 })
})

test('a stop string has at most 4096 characters, in each dialect that has them', () => {
  const body = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'a' }] }
  for (const [dialect, field, schema, forms] of [
    ['chat', 'stop', chatBody, [(stop: string): unknown => stop, (stop: string): unknown => ['a', stop]]],
    ['messages', 'stop_sequences', messagesBody, [(stop: string): unknown => ['a', stop]]],
  ] as const)
    for (const form of forms) {
      const [most, beyond] = [4096, 4097].map((length) => ({ ...body, [field]: form('x'.repeat(length)) }))
      assert.equal(DIALECTS[dialect].request(most!).stop.at(-1)?.length, 4096)
      assert.ok(schema.safeParse(most).success)
      assert.throws(() => DIALECTS[dialect].request(beyond!), {
        code: 'bad_request',
        message: new RegExp(`^${field} must be .*4096 characters`),
      })
      assert.ok(!schema.safeParse(beyond).success)
    }
})
