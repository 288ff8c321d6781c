import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readWritten } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import type OpenAI from 'openai'
import { model, startRig, turnOf, USER } from '../../../../test/kit/gateway.ts'

const CALLS =
  'I will look.\n<tool_call>\n{"name": "read", "arguments": {"path":  "b.txt", "n": 1}}\n</tool_call>\n<tool_call>\n{"name": "list", "arguments": {}}\n</tool_call>'
const tools: OpenAI.ChatCompletionTool[] = ['read', 'list'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { path: { type: 'string' } } } },
}))
const script = (_: unknown, prompt: string): string => (prompt.includes('contents of b') ? 'It says hello.' : CALLS)

test('tools are rendered by the template, and calls have ids of the gateway', async () => {
  const rig = await startRig({ script })
  try {
    const { data, response } = await rig.client.chat.completions
      .create({ model: 'policy', messages: [USER('Read b')], tools })
      .withResponse()
    const [choice] = data.choices
    assert.equal(choice!.finish_reason, 'tool_calls')
    assert.equal(choice!.message.content, 'I will look.')
    assert.deepEqual(
      choice!.message.tool_calls!.map((call) =>
        call.type === 'function' ? [call.function.name, call.function.arguments] : [],
      ),
      [
        ['read', '{"path":  "b.txt", "n": 1}'],
        ['list', '{}'],
      ],
    )
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.ok(turn.type === 'TurnCaptured')
    assert.equal(turn.finish, 'tool_calls')
    assert.equal(readWritten(turn.text), CALLS)
    assert.deepEqual(
      turn.toolCallIds,
      choice!.message.tool_calls!.map(({ id }) => id),
    )
    assert.match(model.decode(rig.engine.requests[0]!.prompt), /"name": ?"read"/)
  } finally {
    await rig.stop()
  }
})

test('a stream of calls has id and name once, an index on each and one finish, and the client rebuilds the message', async () => {
  const rig = await startRig({ script })
  try {
    const stream = rig.client.chat.completions.stream({ model: 'policy', messages: [USER('Read b')], tools })
    const message = await stream.finalMessage()
    assert.equal(message.content, 'I will look.')
    assert.deepEqual(
      message.tool_calls!.map((call) =>
        call.type === 'function' ? [call.function.name, call.function.arguments] : [],
      ),
      [
        ['read', '{"path":  "b.txt", "n": 1}'],
        ['list', '{}'],
      ],
    )
    assert.equal((await stream.finalChatCompletion()).choices[0]!.finish_reason, 'tool_calls')
  } finally {
    await rig.stop()
  }
})

test('tool results find their session on another gateway by call ids, despite re-serialised arguments and dropped characters', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, script }), await startRig({ log, script })]
  try {
    const first = await a.client.chat.completions
      .create({ model: 'policy', messages: [USER('Read b')], tools })
      .withResponse()
    const { message } = first.data.choices[0]!
    const calls = message.tool_calls!.map((call) => {
      assert.ok(call.type === 'function')
      const { path, ...rest } = JSON.parse(call.function.arguments) as { path?: string }
      return {
        id: call.id,
        type: 'function' as const,
        function: { name: call.function.name, arguments: JSON.stringify({ ...rest, path }) },
      }
    })
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      USER('Read b'),
      { role: 'assistant', content: message.content, tool_calls: calls },
      ...calls.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'contents of b: hello' })),
    ]
    const second = await b.client.chat.completions.create({ model: 'policy', messages, tools }).withResponse()
    assert.equal(second.data.choices[0]!.message.content, 'It says hello.')
    const turn = await turnOf(log, second.response.headers.get('x-instar-turn-id'))
    assert.equal(turn.session, first.response.headers.get('x-instar-session-id'))
    assert.equal(turn.labelSource, 'minted')
    assert.equal(turn.offPrefix, false)
    assert.equal(turn.stateFrom, 2)
    const before = await turnOf(log, first.response.headers.get('x-instar-turn-id'))
    assert.equal(turn.prompt.from, before.turn)
    assert.equal(turn.prompt.prefix, before.prompt.length + before.ids.length)
    assert.deepEqual(turn.after, before.answer)
  } finally {
    await Promise.all([a.stop(), b.stop()])
  }
})

test('with tool_choice none tool markup stays text', async () => {
  const rig = await startRig({ script })
  try {
    const answer = await rig.client.chat.completions.create({
      model: 'policy',
      messages: [USER('Read b')],
      tools,
      tool_choice: 'none',
    })
    assert.equal(answer.choices[0]!.message.content, CALLS)
    assert.equal(answer.choices[0]!.finish_reason, 'stop')
  } finally {
    await rig.stop()
  }
})

test('reasoning is beside the content, whole and streamed, and not part of the answer key', async () => {
  const rig = await startRig({ script: () => '<think>\nlet me see\n</think>\n\nForty-two.' })
  try {
    const { data, response } = await rig.client.chat.completions
      .create({ model: 'policy', messages: [USER('?')] })
      .withResponse()
    const message = data.choices[0]!.message as OpenAI.ChatCompletionMessage & { reasoning_content?: string }
    assert.equal(message.content, 'Forty-two.')
    assert.equal(message.reasoning_content, 'let me see')
    const next = await rig.client.chat.completions
      .create({ model: 'policy', messages: [USER('?'), { role: 'assistant', content: 'Forty-two.' }, USER('Sure?')] })
      .withResponse()
    const turn = await turnOf(rig.log, next.response.headers.get('x-instar-turn-id'))
    assert.equal(turn.session, response.headers.get('x-instar-session-id'))
    assert.equal(turn.offPrefix, false, 'what was thought is rendered as it was sampled')
  } finally {
    await rig.stop()
  }
})
