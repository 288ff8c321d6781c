/**
 * `/v1/messages`: response forms, the typed stream, changes between requests without a meaning, both authentication
 * headers.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { model, startRig, turnOf, turnsOf, type Rig } from '../../../../test/kit/gateway.ts'

const ANSWER =
  '<think>\nThey want a file.\n</think>\n\nI will look.\n<tool_call>\n{"name": "Read", "arguments": {"path":  "b.txt", "n": 1}}\n</tool_call>\n<tool_call>\n{"name": "List", "arguments": {}}\n</tool_call>'
const script = (_: unknown, prompt: string): string => (prompt.includes('contents of b') ? 'It says hello.' : ANSWER)
const tools = ['Read', 'List'].map((name) => ({
  name,
  description: `${name}s`,
  input_schema: { type: 'object', properties: { path: { type: 'string' } } },
}))
type Block = {
  type: string
  text?: string
  thinking?: string
  signature?: string
  id?: string
  name?: string
  input?: unknown
}
type Message = {
  id: string
  content: Block[]
  stop_reason: string
  stop_sequence: string | null
  usage: { input_tokens: number; output_tokens: number }
}
type Event = {
  type: string
  index?: number
  message?: Message
  content_block?: Block
  delta?: {
    type?: string
    text?: string
    thinking?: string
    partial_json?: string
    signature?: string
    stop_reason?: string
  }
  usage?: { output_tokens: number }
  error?: { type: string }
}

const ask = (rig: Rig, json: object, headers: Record<string, string> = {}): Promise<Response> =>
  rig.fetch('/v1/messages?beta=true', {
    json: { model: 'policy', max_tokens: 200, ...json },
    headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'anything-2026', ...headers },
  })

const eventsOf = async (response: Response): Promise<Event[]> =>
  (await response.text())
    .split('\n\n')
    .filter((text) => text !== '')
    .map((text) => {
      const [, event, data] = /^event: (\S+)\ndata: (.*)$/.exec(text) ?? []
      const value = JSON.parse(data!) as Event
      assert.equal(value.type, event)
      return value
    })

test('a whole message has signed thinking, text, tool uses and usage', async () => {
  const rig = await startRig({ script })
  try {
    const response = await ask(rig, {
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cc_version=1.2;' },
        { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } },
      ],
      messages: [{ role: 'user', content: 'Read b' }],
      tools: [...tools, { type: 'web_search_20250305', name: 'web_search' }],
      thinking: { type: 'adaptive' },
    })
    assert.equal(response.status, 200)
    const message = (await response.json()) as Message
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.equal(turn.dialect, 'messages')
    const [thinking, text, read, list] = message.content
    assert.equal(thinking!.thinking, 'They want a file.')
    assert.match(thinking!.signature!, /^sealed[a-z2-7]{24}0$/)
    assert.deepEqual(text, { type: 'text', text: 'I will look.' })
    assert.deepEqual(
      [read!.type, read!.name, read!.input, list!.name, list!.input],
      ['tool_use', 'Read', { path: 'b.txt', n: 1 }, 'List', {}],
    )
    assert.match(read!.id!, /^toolu[a-z2-7]{24}0$/)
    assert.deepEqual(turn.toolCallIds, [read!.id, list!.id])
    assert.deepEqual([message.stop_reason, message.stop_sequence], ['tool_use', null])
    assert.deepEqual([message.usage.input_tokens, message.usage.output_tokens], [turn.prompt.length, turn.ids.length])
    const thought = model.encode(ANSWER.slice(0, ANSWER.indexOf('</think>'))).length
    assert.deepEqual((message.usage as { output_tokens_details?: unknown }).output_tokens_details, {
      thinking_tokens: thought,
    })
    assert.equal(response.headers.get('x-instar-dropped-tools'), 'web_search')
    assert.equal(response.headers.get('request-id'), response.headers.get('x-request-id'))
    const prompt = model.decode(rig.engine.requests[0]!.prompt)
    assert.match(prompt, /Be brief\./)
    assert.doesNotMatch(prompt, /billing|web_search/)
  } finally {
    await rig.stop()
  }
})

test('a stream has the start, the blocks in order, the stop reason and the end', async () => {
  const rig = await startRig({ script })
  try {
    const events = await eventsOf(
      await ask(rig, { messages: [{ role: 'user', content: 'Read b' }], tools, stream: true }),
    )
    assert.deepEqual(
      events.slice(0, 3).map(({ type }) => type),
      ['message_start', 'ping', 'content_block_start'],
    )
    assert.deepEqual(
      events.slice(-2).map(({ type }) => type),
      ['message_delta', 'message_stop'],
    )
    assert.equal(events.at(-2)!.delta!.stop_reason, 'tool_use')
    const blocks: { block: Block; deltas: NonNullable<Event['delta']>[] }[] = []
    let open: number | null = null
    for (const event of events) {
      if (event.type === 'content_block_start') {
        assert.equal(open, null)
        open = event.index!
        assert.equal(open, blocks.length)
        blocks.push({ block: event.content_block!, deltas: [] })
      } else if (event.type === 'content_block_delta') {
        assert.equal(event.index, open)
        blocks.at(-1)!.deltas.push(event.delta!)
      } else if (event.type === 'content_block_stop') {
        assert.equal(event.index, open)
        open = null
      }
    }
    assert.equal(open, null)
    const joined = (i: number, of: 'text' | 'thinking' | 'partial_json' | 'signature'): string =>
      blocks[i]!.deltas.map((delta) => delta[of] ?? '').join('')
    assert.deepEqual(
      blocks.map(({ block }) => block.type),
      ['thinking', 'text', 'tool_use', 'tool_use'],
    )
    assert.equal(joined(0, 'thinking').trim(), 'They want a file.')
    assert.match(joined(0, 'signature'), /^sealed/)
    assert.equal(joined(1, 'text'), 'I will look.')
    assert.deepEqual(JSON.parse(joined(2, 'partial_json')), { path: 'b.txt', n: 1 })
    assert.deepEqual(blocks[2]!.block.input, {})
    const [turn] = await turnsOf(rig.log)
    assert.equal(events.at(-2)!.usage!.output_tokens, turn!.ids.length)
    assert.equal(events[0]!.message!.usage.input_tokens, turn!.prompt.length)
  } finally {
    await rig.stop()
  }
})

test('a next request of Claude Code with blocks, moved cache marks, other key order and a late system message is in the session, joined and on the prefix', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, script }), await startRig({ log, script })]
  try {
    const headers = { 'x-claude-code-session-id': 'c0ffee00-0000-4000-8000-000000000001' }
    const system = [{ type: 'text', text: 'Be brief.' }]
    const first = await ask(
      a,
      {
        system,
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'Read b', cache_control: { type: 'ephemeral' } }] },
          { role: 'system', content: 'The date.' },
        ],
        tools,
      },
      headers,
    )
    const { content } = (await first.json()) as Message
    const calls = content.filter(({ type }) => type === 'tool_use')
    const second = await ask(
      b,
      {
        system,
        tools,
        messages: [
          { role: 'user', content: 'Read b' },
          { role: 'system', content: [{ type: 'text', text: 'The date.' }] },
          {
            role: 'assistant',
            content: content.map((block) =>
              block.name === 'Read' ? { ...block, input: { n: 1, path: 'b.txt' } } : block,
            ),
          },
          {
            role: 'user',
            content: [
              ...calls.map(({ id }) => ({
                type: 'tool_result',
                tool_use_id: id,
                content: [{ type: 'text', text: 'contents of b: hello' }],
                is_error: false,
              })),
              { type: 'text', text: '<system-reminder>todo</system-reminder>' },
              { type: 'text', text: 'and now?', cache_control: { type: 'ephemeral' } },
            ],
          },
          { role: 'system', content: 'Another tool is there.' },
        ],
      },
      headers,
    )
    assert.equal(((await second.json()) as Message).content[0]!.text, 'It says hello.')
    const [one, two] = await turnsOf(log)
    assert.equal(two!.session, one!.session)
    assert.deepEqual(two!.after, one!.answer)
    assert.equal(two!.labelSource, 'agent')
    assert.equal(two!.offPrefix, false)
    assert.ok(b.engine.requests[0]!.prompt.length > a.engine.requests[0]!.prompt.length)
  } finally {
    await a.stop()
    await b.stop()
  }
})

test('ids in the messages find the session without headers, and metadata names session and user', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, script }), await startRig({ log, script })]
  try {
    const first = await ask(a, { messages: [{ role: 'user', content: 'Read b' }], tools })
    const { content } = (await first.json()) as Message
    const results = content
      .filter(({ type }) => type === 'tool_use')
      .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'contents of b: hello' }))
    const second = await ask(b, {
      messages: [
        { role: 'user', content: 'Read b' },
        { role: 'assistant', content },
        { role: 'user', content: results },
      ],
      tools,
    })
    assert.equal(second.headers.get('x-instar-session-id'), first.headers.get('x-instar-session-id'))
    const named = (user: string): Promise<Response> =>
      ask(a, { messages: [{ role: 'user', content: 'Hello' }], metadata: { user_id: user } })
    const json = await named(JSON.stringify({ device_id: 'd', account_uuid: 'acc', session_id: 's-1' }))
    const old = await named(`user_${'1'.repeat(8)}_account__session_c0ffee00-0000-4000-8000-000000000002`)
    assert.deepEqual(
      [json, old].map(({ headers }) => headers.get('x-instar-session-id')),
      ['s-1', 'c0ffee00-0000-4000-8000-000000000002'],
    )
    const turns = await turnsOf(log)
    assert.notEqual(turns.at(-1)!.subject, turns.at(-2)!.subject)
  } finally {
    await a.stop()
    await b.stop()
  }
})

test('stop sequences are named, tokens are counted, errors have their form, and a failing stream ends with an error event', async () => {
  const rig = await startRig({
    script: (request, prompt) =>
      prompt.includes('fail')
        ? {
            text: 'Never to the end of it',
            before: (i) => {
              if (i === 3) throw new Error('gone')
            },
          }
        : request.sampling.stop.length > 0
          ? { text: 'One two ', stop: 'END' }
          : 'Hi',
  })
  try {
    const counted = await rig.fetch('/v1/messages/count_tokens', {
      json: { model: 'policy', system: 'Be brief.', messages: [{ role: 'user', content: 'Hello' }] },
    })
    const { input_tokens: count } = (await counted.json()) as { input_tokens: number }
    const message = (await (
      await ask(rig, { system: 'Be brief.', messages: [{ role: 'user', content: 'Hello' }] })
    ).json()) as Message
    assert.equal(count, message.usage.input_tokens)
    assert.equal(message.stop_reason, 'end_turn')
    const stopped = (await (
      await ask(rig, { messages: [{ role: 'user', content: 'Count' }], stop_sequences: ['HALT', 'END'] })
    ).json()) as Message
    assert.deepEqual(
      [stopped.content[0]!.text, stopped.stop_reason, stopped.stop_sequence],
      ['One two ', 'stop_sequence', 'END'],
    )
    assert.equal((await rig.fetch('/api/hello', { method: 'HEAD' })).status, 200)
    const bad = await ask(rig, { messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] })
    assert.equal(bad.status, 400)
    const { error, ...rest } = (await bad.json()) as {
      type: string
      error: { type: string; message: string }
      request_id: string
    }
    assert.deepEqual(
      [rest.type, error.type, rest.request_id],
      ['error', 'invalid_request_error', bad.headers.get('request-id')],
    )
    assert.match(error.message, /messages\[0\]\.content\[0\] is of type image/)
    const long = await ask(rig, { messages: [{ role: 'user', content: 'word '.repeat(4000) }] })
    assert.match(
      ((await long.json()) as { error: { message: string } }).error.message,
      /maximum context length is \d+ tokens.*prompt is too long: \d+ tokens > \d+ maximum/,
    )
    const events = await eventsOf(await ask(rig, { messages: [{ role: 'user', content: 'fail' }], stream: true }))
    assert.equal(events.at(-1)!.type, 'error')
    assert.equal(events.at(-1)!.error!.type, 'api_error')
  } finally {
    await rig.stop()
  }
})

test('both authentication headers are accepted', async () => {
  const secret = 'sk-instar-test'
  const rig = await startRig({
    settings: { keys: [{ id: 'k1', sha256: createHash('sha256').update(secret).digest('hex') }] },
  })
  try {
    const body = { messages: [{ role: 'user', content: 'Hello' }] }
    assert.deepEqual(
      [
        (await ask(rig, body, { 'x-api-key': secret })).status,
        (await ask(rig, body, { authorization: `Bearer ${secret}` })).status,
      ],
      [200, 200],
    )
    const refused = await ask(rig, body)
    assert.equal(refused.status, 401)
    assert.equal(((await refused.json()) as { error: { type: string } }).error.type, 'authentication_error')
  } finally {
    await rig.stop()
  }
})
