/**
 * What a request refers to without containing it: message threads, conversations, stored prompts, hosted servers. Each
 * is resolved, refused or reported.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { model, startRig, turnOf, turnsOf, type Rig } from '../../../../test/kit/gateway.ts'

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
const script = (_: unknown, prompt: string): string =>
  prompt.includes('Thanks') ? 'You are welcome.' : prompt.includes('result 3') ? 'It is three.' : CALL
const tools = [
  {
    name: 'add',
    description: 'Adds',
    input_schema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
  },
]
type Said = { id: string; content: { type: string; id?: string; text?: string }[] }
type Fault = {
  type: 'error'
  error: { type: string; message: string; details?: { error_code: string; unsupported?: string[] } }
}

const messages = (rig: Rig, json: object, headers: Record<string, string> = {}): Promise<Response> =>
  rig.fetch('/v1/messages?beta=true', { json: { model: 'policy', max_tokens: 100, ...json }, headers })
const promptOf = (rig: Rig): string => model.decode(rig.engine.requests.at(-1)!.prompt)

test('a message thread continues from the named response, also on another gateway, with system text, tools and messages of the log', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, script }), await startRig({ log, script })]
  try {
    const first = await messages(a, {
      thread: { type: 'create' },
      system: 'Be exact.',
      tools,
      messages: [{ role: 'user', content: 'What is 1 and 2?' }],
    })
    const said = (await first.json()) as Said
    const result = {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: said.content[0]!.id, content: 'result 3' }],
    }
    const second = await messages(b, { thread: { type: 'continue', previous_message_id: said.id }, messages: [result] })
    const next = (await second.json()) as Said
    assert.deepEqual(next.content, [{ type: 'text', text: 'It is three.' }])
    const threaded = promptOf(b)
    for (const part of ['Be exact.', 'Adds', 'What is 1 and 2?', '"a": 1', 'result 3'])
      assert.ok(threaded.includes(part), part)
    const third = await messages(a, {
      thread: { type: 'continue', previous_message_id: next.id },
      messages: [{ role: 'user', content: 'Thanks' }],
    })
    assert.equal(((await third.json()) as Said).content[0]!.text, 'You are welcome.')
    assert.ok(promptOf(a).includes('What is 1 and 2?'))
    // The same request from a client that keeps the conversation itself.
    const everything = {
      system: 'Be exact.',
      tools,
      messages: [{ role: 'user', content: 'What is 1 and 2?' }, { role: 'assistant', content: said.content }, result],
    }
    const whole = await messages(b, everything)
    assert.equal(whole.status, 200)
    assert.equal(promptOf(b), threaded)
    const turns = await turnsOf(log)
    assert.equal(new Set(turns.map(({ session }) => session)).size, 1)
    assert.deepEqual(
      turns.slice(1).map(({ labelSource }) => labelSource),
      ['minted', 'minted', 'minted'],
    )
    assert.deepEqual(
      [turns[1]!.after, turns[1]!.offPrefix, turns[1]!.digest],
      [turns[0]!.answer, false, turns[3]!.digest],
    )
    // A thread has as many tokens as the conversation that it refers to.
    const count = async (body: object): Promise<unknown> =>
      (await b.fetch('/v1/messages/count_tokens', { json: { model: 'policy', ...body } })).json()
    assert.deepEqual(
      await count({ thread: { type: 'continue', previous_message_id: said.id }, messages: [result] }),
      await count(everything),
    )
  } finally {
    await a.stop()
    await b.stop()
  }
})

test('a thread of an unknown response gives 404 thread_not_found, and an unsupported kind gives 400 thread_unsupported_request', async () => {
  const rig = await startRig({ script, settings: { tailWaitMs: 100 } })
  try {
    const said = async (thread: unknown): Promise<[number, Fault['error']['type'], Fault['error']['details']]> => {
      const response = await messages(rig, { thread, messages: [{ role: 'user', content: 'Hi' }] })
      const { error } = (await response.json()) as Fault
      return [response.status, error.type, error.details]
    }
    assert.deepEqual(await said({ type: 'continue', previous_message_id: 'msg_01nobody' }), [
      404,
      'not_found_error',
      { error_code: 'thread_not_found' },
    ])
    assert.deepEqual(await said({ type: 'fork', previous_message_id: 'msg_01nobody' }), [
      400,
      'invalid_request_error',
      { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
    ])
    assert.deepEqual((await said({ type: 'continue' })).slice(0, 2), [400, 'invalid_request_error'])
    assert.deepEqual((await said('create')).slice(0, 2), [400, 'invalid_request_error'])
    // The id of a response of another API is no message of a thread.
    const other = await rig.client.responses.create({ model: 'policy', input: 'Hi' })
    assert.deepEqual(await said({ type: 'continue', previous_message_id: other.output.at(-1)!.id }), [
      404,
      'not_found_error',
      { error_code: 'thread_not_found' },
    ])
    assert.equal((await turnsOf(rig.log)).length, 1)
  } finally {
    await rig.stop()
  }
})

test('references to a turn of another API, a conversation or a stored prompt are refused with their name', async () => {
  const rig = await startRig({ script })
  try {
    const message = (await (await messages(rig, { messages: [{ role: 'user', content: 'Hi' }] })).json()) as Said
    const fields: [object, string][] = [
      [{ conversation: 'conv_1' }, 'conversation'],
      [{ conversation: { id: 'conv_1' } }, 'conversation'],
      [{ prompt: { id: 'pmpt_1' } }, 'prompt'],
      [{ previous_response_id: message.id }, 'previous_response_id'],
    ]
    for (const [field, param] of fields)
      await assert.rejects(rig.client.responses.create({ model: 'policy', input: 'Hi', ...field }), {
        status: 400,
        param,
      })
    await rig.client.responses.create({ model: 'policy', input: 'Hi', conversation: null, prompt: null } as never)
    assert.equal((await turnsOf(rig.log)).length, 2)
  } finally {
    await rig.stop()
  }
})

test('ignored fields are named in x-instar-ignored, which is absent without any', async () => {
  const rig = await startRig({ script })
  try {
    const ignored = (response: Response): string | null => response.headers.get('x-instar-ignored')
    const hi = [{ role: 'user', content: 'Hi' }]
    assert.equal(
      ignored(
        await messages(rig, {
          messages: hi,
          mcp_servers: [{ type: 'url', url: 'http://x', name: 'x' }],
          container: 'c',
          context_management: { edits: [] },
        }),
      ),
      'mcp_servers,container,context_management',
    )
    assert.equal(ignored(await messages(rig, { messages: hi, mcp_servers: [], container: null })), null)
    const background = await rig.fetch('/v1/responses', { json: { model: 'policy', input: 'Hi', background: true } })
    assert.equal(ignored(background), 'background')
    const { status, background: said } = (await background.json()) as { status: string; background: boolean }
    assert.deepEqual([status, said], ['completed', false])
    assert.equal(
      ignored(await rig.fetch('/v1/responses', { json: { model: 'policy', input: 'Hi', background: false } })),
      null,
    )
    const stream = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', stream: true, messages: hi, web_search_options: {}, modalities: ['text', 'audio'] },
    })
    await stream.text()
    assert.equal(ignored(stream), 'modalities,web_search_options')
    await turnOf(rig.log, stream.headers.get('x-instar-turn-id'))
  } finally {
    await rig.stop()
  }
})
