/** Constrained answers of the real engine on the shipped model, through the official client. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { readWritten } from '@instar/events'
import { Ajv2020 } from 'ajv/dist/2020.js'
import OpenAI from 'openai'
import { turnOf, turnsOf, USER } from '../../../../test/kit/gateway.ts'
import { startTiny, type Tiny } from '../../../../test/kit/tiny.ts'

let tiny: Tiny
let client: OpenAI

before(async () => {
  tiny = await startTiny()
  client = new OpenAI({ baseURL: `${tiny.url}/v1`, apiKey: 'none', maxRetries: 0 })
})
after(() => tiny.stop())

const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 130 },
    mood: { enum: ['glad', 'sad "or" so', 'é'] },
    tags: { type: 'array', items: { type: 'string', maxLength: 6 }, maxItems: 2 },
  },
  required: ['name', 'age', 'mood', 'tags'],
  additionalProperties: false,
} as const
const valid = new Ajv2020({ strict: false }).compile(PERSON)
const format = { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: PERSON } } as const
const base = { model: 'policy', temperature: 1, max_tokens: 200 } as const

test('with json_schema each complete answer is valid beside free answers, and is captured and not trained on', async () => {
  const asked = Array.from({ length: 12 }, async (_, seed) => {
    const free = seed % 3 === 0
    const { data, response } = await client.chat.completions
      .create({ ...base, seed, messages: [USER('Tell me of a person.')], ...(free ? {} : { response_format: format }) })
      .withResponse()
    const [choice] = data.choices
    const turn = await turnOf(tiny.log, response.headers.get('x-instar-turn-id'))
    assert.equal(turn.ids.length, turn.logprobs.length)
    if (free) assert.equal(turn.reason, null)
    else {
      assert.equal(choice!.finish_reason, 'stop')
      assert.ok(valid(JSON.parse(choice!.message.content!)), choice!.message.content!)
      assert.deepEqual([turn.trainable, turn.reason, turn.tokens], [false, 'constrained', 'exact'])
      assert.equal(readWritten(turn.text), choice!.message.content)
    }
  })
  await Promise.all(asked)
})

test('with json_object the answer is an object, streamed, and a cut one has finish length', async () => {
  const {
    choices: [choice],
  } = await client.chat.completions
    .stream({ ...base, messages: [USER('Some JSON please.')], response_format: { type: 'json_object' } })
    .finalChatCompletion()
  assert.ok(choice!.message.content!.trimStart().startsWith('{'))
  // This model does not end a text of unbounded length.
  if (choice!.finish_reason === 'stop') JSON.parse(choice!.message.content!)
  else assert.equal(choice!.finish_reason, 'length')
  const cut = await client.chat.completions.create({
    ...base,
    max_tokens: 3,
    messages: [USER('Some JSON please.')],
    response_format: format,
  })
  assert.equal(cut.choices[0]!.finish_reason, 'length')
})

const tools: OpenAI.ChatCompletionFunctionTool[] = [
  {
    type: 'function',
    function: {
      name: 'book',
      parameters: {
        type: 'object',
        properties: {
          room: { enum: ['a', 'b</tool_call>'] },
          nights: { type: 'integer', minimum: 1, maximum: 9 },
          note: { type: 'string', maxLength: 8 },
        },
        required: ['room', 'nights'],
      },
    },
  },
  {
    type: 'function',
    function: {
      name: 'ring',
      parameters: {
        type: 'object',
        properties: { loud: { type: 'boolean' } },
        required: ['loud'],
        additionalProperties: false,
      },
    },
  },
]
const fits = new Map(
  tools.map(({ function: { name, parameters } }) => [name, new Ajv2020({ strict: false }).compile(parameters!)]),
)
const checkCall = ({ name, arguments: given }: { name: string; arguments: string }): void =>
  assert.ok(fits.get(name)?.(JSON.parse(given)), `${name} ${given}`)

test('a forced tool gives one call of its schema, and required gives one or more; streamed and whole', async () => {
  for (let seed = 0; seed < 6; seed++) {
    const asked = { ...base, seed, messages: [USER('Hello')], tools }
    const named = await client.chat.completions.create({
      ...asked,
      tool_choice: { type: 'function', function: { name: 'book' } },
    })
    assert.equal(named.choices[0]!.finish_reason, 'tool_calls')
    assert.equal(named.choices[0]!.message.content, null)
    const calls = named.choices[0]!.message.tool_calls!
    assert.deepEqual(
      calls.map((call) => (call.type === 'function' ? call.function.name : '')),
      ['book'],
    )
    for (const call of calls) if (call.type === 'function') checkCall(call.function)
    const {
      choices: [choice],
    } = await client.chat.completions
      .stream({ ...asked, tool_choice: 'required', parallel_tool_calls: false })
      .finalChatCompletion()
    assert.equal(choice!.finish_reason, 'tool_calls')
    const [call, ...others] = choice!.message.tool_calls!
    assert.equal(others.length, 0)
    assert.ok(call?.type === 'function')
    checkCall(call.function)
  }
})

test('required without a limit gives one or more valid calls', async () => {
  const counts: number[] = []
  await Promise.all(
    Array.from({ length: 8 }, async (_, seed) => {
      const {
        data: {
          choices: [choice],
        },
        response,
      } = await client.chat.completions
        .create({
          ...base,
          max_tokens: 900,
          seed,
          messages: [USER('Hello')],
          tools: tools.slice(1),
          tool_choice: 'required',
        })
        .withResponse()
      const calls = choice!.message.tool_calls ?? []
      for (const call of calls) if (call.type === 'function') checkCall(call.function)
      if (choice!.finish_reason === 'tool_calls') counts.push(calls.length)
      assert.equal((await turnOf(tiny.log, response.headers.get('x-instar-turn-id'))).reason, 'constrained')
    }),
  )
  assert.ok(counts.every((count) => count >= 1) && counts.length > 0)
})

type Block = { type: string; name?: string; text?: string; input?: unknown; arguments?: string; content?: Block[] }
type Reply = {
  status: number
  content?: Block[]
  stop_reason?: string
  output?: Block[]
  error?: { message: string; param?: string }
}
const post = async (path: string, body: object): Promise<Reply> => {
  const response = await fetch(`${tiny.url}${path}`, { method: 'POST', body: JSON.stringify({ ...base, ...body }) })
  return { ...((await response.json()) as Reply), status: response.status }
}

test('Messages supports tool_choice any and tool, and output_config.format', async () => {
  const asked = {
    messages: [USER('Hello')],
    tools: tools.map(({ function: { name, parameters } }) => ({ name, input_schema: parameters })),
  }
  for (const tool_choice of [
    { type: 'tool', name: 'ring' },
    { type: 'any', disable_parallel_tool_use: true },
  ]) {
    const reply = await post('/v1/messages', { ...asked, tool_choice })
    assert.equal(reply.stop_reason, 'tool_use')
    assert.equal(reply.content!.length, 1)
    const [block] = reply.content!
    assert.equal(block!.type, 'tool_use')
    checkCall({ name: block!.name!, arguments: JSON.stringify(block!.input) })
  }
  for (const field of [
    { output_config: { format: { type: 'json_schema', schema: PERSON } } },
    { output_format: { type: 'json_schema', schema: PERSON } },
  ]) {
    const reply = await post('/v1/messages', { messages: [USER('Hello')], ...field })
    assert.equal(reply.stop_reason, 'end_turn')
    assert.ok(valid(JSON.parse(reply.content![0]!.text!)))
  }
})

test('Responses supports text.format, tool_choice required and a named function', async () => {
  const input = 'Hello'
  const said = await post('/v1/responses', {
    input,
    text: { format: { type: 'json_schema', name: 'person', schema: PERSON } },
  })
  assert.ok(valid(JSON.parse(said.output![0]!.content![0]!.text!)))
  const offered = tools.map(({ function: made }) => ({ type: 'function', ...made }))
  for (const tool_choice of [
    'required',
    { type: 'function', name: 'ring' },
    { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'ring' }] },
  ]) {
    const called = await post('/v1/responses', { input, tools: offered, tool_choice, parallel_tool_calls: false })
    assert.deepEqual(
      called.output!.map(({ type }) => type),
      ['function_call'],
    )
    const [item] = called.output!
    checkCall({ name: item!.name!, arguments: item!.arguments! })
    if (tool_choice !== 'required') assert.equal(item!.name, 'ring')
  }
})

test('an unsupported keyword gives 400 with its name before any answer, and leaves no turn', async () => {
  const turns = async (): Promise<number> => (await turnsOf(tiny.log)).length
  const before = await turns()
  const schemas: [unknown, RegExp][] = [
    [{ type: 'object', properties: { a: { not: { type: 'string' } } } }, /"not" at #\/properties\/a /],
    [{ type: 'array', uniqueItems: true }, /uniqueItems/],
    [{ type: 'string', pattern: '^(?!a)b$' }, /"pattern".*lookaround/],
    [{ type: 'string', format: 'iri' }, /"format"/],
    [{ $ref: '#' }, /allows no value/],
    [{ type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }, /allows no value/],
  ]
  for (const [schema, says] of schemas) {
    const { status, error } = await post('/v1/chat/completions', {
      messages: [USER('Hi')],
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    assert.equal(status, 400)
    assert.match(error!.message, says)
    assert.equal(error!.param, 'response_format')
  }
  for (const [body, says] of [
    [{ response_format: { type: 'xml' } }, /response_format.type/],
    [{ response_format: { type: 'json_schema' } }, /response_format.json_schema.schema/],
    [{ tool_choice: 'required' }, /tool_choice/],
    [{ tools, tool_choice: { type: 'function', function: { name: 'fly' } } }, /tool_choice/],
  ] as const) {
    const { status, error } = await post('/v1/chat/completions', { messages: [USER('Hi')], ...body })
    assert.equal(status, 400)
    assert.match(error!.message, says)
  }
  assert.equal(await turns(), before)
})
