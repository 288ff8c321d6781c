/**
 * `/v1/responses` with the official client: response forms, streams, references into the log, one session over turns.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import OpenAI from 'openai'
import { model, startRig, turnOf, turnsOf } from '../../../../test/kit/gateway.ts'

const ANSWER =
  '<think>\nThey want a file.\n</think>\n\nI will look.\n<tool_call>\n{"name": "read", "arguments": {"path":  "b.txt", "n": 1}}\n</tool_call>\n<tool_call>\n{"name": "team__spawn", "arguments": {"who": "a"}}\n</tool_call>\n<tool_call>\n{"name": "patch", "arguments": {"input": "*** begin"}}\n</tool_call>'
const script = (_: unknown, prompt: string): string => (prompt.includes('contents of b') ? 'It says hello.' : ANSWER)
const tools = [
  {
    type: 'function',
    name: 'read',
    strict: null,
    parameters: { type: 'object', properties: { path: { type: 'string' } } },
  },
  {
    type: 'namespace',
    name: 'team',
    description: 'helpers',
    tools: [{ type: 'function', name: 'spawn', parameters: { type: 'object' } }],
  },
  { type: 'custom', name: 'patch', description: 'a patch' },
  { type: 'web_search' },
] as unknown as OpenAI.Responses.Tool[]

const SAID = [
  ['reasoning', 'They want a file.'],
  ['message', 'I will look.'],
  ['function_call', 'read', null, '{"path":  "b.txt", "n": 1}'],
  ['function_call', 'spawn', 'team', '{"who": "a"}'],
  ['custom_tool_call', 'patch', null, '*** begin'],
]
type Item = OpenAI.Responses.ResponseOutputItem
const shapeOf = (item: Item): unknown[] => {
  const fields = item as unknown as { name?: string; namespace?: string; arguments?: string; input?: string }
  if (item.type === 'reasoning') return [item.type, item.summary.map(({ text }) => text).join('')]
  if (item.type === 'message')
    return [item.type, item.content.map((part) => (part.type === 'output_text' ? part.text : '')).join('')]
  return [item.type, fields.name, fields.namespace ?? null, fields.arguments ?? fields.input]
}

test('a whole response has reasoning, text, functions, namespaced functions and custom tools, and hosted tools are ignored and named', async () => {
  const rig = await startRig({ script })
  try {
    const { data, response } = await rig.client.responses
      .create({
        model: 'policy',
        instructions: 'Be brief.',
        input: 'Read b',
        tools,
        include: ['reasoning.encrypted_content'],
        store: false,
      })
      .withResponse()
    assert.equal(data.status, 'completed')
    assert.equal(data.output_text, 'I will look.')
    assert.deepEqual(data.output.map(shapeOf), SAID)
    assert.equal(response.headers.get('x-instar-dropped-tools'), 'web_search')
    assert.ok(data.output[0]!.type === 'reasoning' && data.output[0].encrypted_content?.startsWith('sealed'))
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.equal(turn.dialect, 'responses')
    assert.equal(data.usage!.input_tokens, turn.prompt.length)
    assert.equal(data.usage!.output_tokens, turn.ids.length)
    assert.equal(data.usage!.total_tokens, turn.prompt.length + turn.ids.length)
    const prompt = model.decode(rig.engine.requests[0]!.prompt)
    assert.match(prompt, /Be brief\./)
    assert.match(prompt, /team__spawn/)
    assert.doesNotMatch(prompt, /web_search/)
  } finally {
    await rig.stop()
  }
})

test('a stream has numbered events in order with each item opened and closed, and the client rebuilds the final response', async () => {
  const rig = await startRig({ script })
  try {
    const stream = rig.client.responses.stream({ model: 'policy', input: 'Read b', tools })
    const events: OpenAI.Responses.ResponseStreamEvent[] = []
    for await (const event of stream) events.push(event)
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, i) => i),
    )
    assert.deepEqual(
      events.slice(0, 3).map(({ type }) => type),
      ['response.created', 'response.in_progress', 'response.output_item.added'],
    )
    assert.equal(events.at(-1)!.type, 'response.completed')
    const done = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event] : []))
    assert.deepEqual(
      done.map(({ output_index }) => output_index),
      [0, 1, 2, 3, 4],
    )
    assert.deepEqual(
      done.map(({ item }) => shapeOf(item)),
      SAID,
    )
    const final = await stream.finalResponse()
    assert.deepEqual(final.output.map(shapeOf), SAID)
    assert.deepEqual(
      final.output.map(({ id }) => id),
      done.map(({ item }) => item.id),
    )
    for (const { item } of done) {
      const deltas = events.flatMap((event) =>
        'item_id' in event &&
        event.item_id === item.id &&
        event.type.endsWith('.delta') &&
        'delta' in event &&
        typeof event.delta === 'string'
          ? [event.delta]
          : [],
      )
      assert.equal(deltas.join('').trim(), shapeOf(item).at(-1))
    }
  } finally {
    await rig.stop()
  }
})

test('returned items, item references and whole responses are recognised on another gateway as one session with joined turns', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, script }), await startRig({ log, script })]
  try {
    const first = await a.client.responses.create({ model: 'policy', input: 'Read b', tools }).withResponse()
    const session = first.response.headers.get('x-instar-session-id')
    const calls = first.data.output.flatMap((item) =>
      'call_id' in item ? [item as { call_id: string; type: string }] : [],
    )
    const outputs = calls.map(({ call_id, type }) => ({
      type: type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output',
      call_id,
      output: 'contents of b: hello',
    })) as OpenAI.Responses.ResponseInputItem[]
    const ways: OpenAI.Responses.ResponseCreateParamsNonStreaming[] = [
      {
        input: [
          { role: 'user', content: 'Read b' },
          ...(first.data.output as OpenAI.Responses.ResponseInputItem[]),
          ...outputs,
        ],
      },
      {
        input: [
          { role: 'user', content: 'Read b' },
          ...first.data.output.map(({ id }) => ({ type: 'item_reference' as const, id: id! })),
          ...outputs,
        ],
      },
      { previous_response_id: first.data.id, input: outputs },
    ]
    const prompts: string[] = []
    for (const [i, way] of ways.entries()) {
      const { data, response } = await b.client.responses.create({ model: 'policy', tools, ...way }).withResponse()
      assert.equal(data.output_text, 'It says hello.')
      assert.equal(response.headers.get('x-instar-session-id'), session, `way ${i}`)
      prompts.push(model.decode(b.engine.requests.at(-1)!.prompt))
      assert.equal((await turnOf(log, response.headers.get('x-instar-turn-id'))).offPrefix, false, `way ${i}`)
    }
    assert.equal(new Set(prompts).size, 1)
    const turns = await turnsOf(log)
    const [one] = turns
    for (const other of turns.slice(1)) {
      assert.deepEqual(other.after, one!.answer)
      assert.equal(other.stateFrom, 2)
      assert.equal(other.digest, turns[1]!.digest)
    }
  } finally {
    await a.stop()
    await b.stop()
  }
})

test('responses are chained by previous_response_id, and an unknown id is refused', async () => {
  const rig = await startRig({ script: (_, prompt) => `Answer ${prompt.split('Question').length - 1}.` })
  try {
    let previous: string | null = null
    for (let i = 1; i <= 4; i += 1) {
      const answer: OpenAI.Responses.Response = await rig.client.responses.create({
        model: 'policy',
        input: `Question ${i}`,
        ...(previous === null ? {} : { previous_response_id: previous }),
      })
      assert.equal(answer.previous_response_id, previous)
      assert.equal(answer.output_text, `Answer ${i}.`)
      previous = answer.id
    }
    assert.equal(new Set((await turnsOf(rig.log)).map(({ session }) => session)).size, 1)
    for (const [input, words] of [
      [[], /at least one item/],
      [[{ type: 'web_search_call', id: 'w' }], /a message, a call or the output of a call/],
    ] as const)
      await assert.rejects(rig.client.responses.create({ model: 'policy', input: input as never }), {
        status: 400,
        param: 'input',
        message: words,
      })
    await assert.rejects(
      rig.client.responses.create({ model: 'policy', input: 'x', previous_response_id: 'resp_1234' }),
      (error: unknown) =>
        error instanceof OpenAI.BadRequestError &&
        error.code === 'previous_response_not_found' &&
        error.param === 'previous_response_id' &&
        /resp_1234/.test(error.message),
    )
  } finally {
    await rig.stop()
  }
})

test('a response that reaches its limit is incomplete with the reason, and a failure inside a stream ends with response.failed', async () => {
  const rig = await startRig({
    script: (_, prompt) =>
      prompt.includes('fail')
        ? {
            text: 'Never to the end of it',
            before: (i) => {
              if (i === 3) throw new Error('gone')
            },
          }
        : 'One two three four five six seven',
  })
  try {
    const cut = await rig.client.responses.create({ model: 'policy', input: 'count', max_output_tokens: 3 })
    assert.equal(cut.status, 'incomplete')
    assert.deepEqual(cut.incomplete_details, { reason: 'max_output_tokens' })
    const types: string[] = []
    for await (const event of await rig.client.responses.create({ model: 'policy', input: 'fail', stream: true }))
      types.push(event.type)
    assert.equal(types.at(-1), 'response.failed')
    assert.equal(types.filter((type) => type === 'response.output_text.delta').length > 0, true)
  } finally {
    await rig.stop()
  }
})
