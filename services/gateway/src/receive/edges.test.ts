/** Requirements of real clients: exact bytes of streams, unusual messages, sizes, orders and connections. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { mintId } from '@instar/dialects'
import { openMemoryLog } from '@instar/log'
import { sse, startRig, turnOf, turnsOf, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { gate } from '../../../../test/kit/scripted-engine.ts'

const READ = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'
const TWO = `${READ}\n<tool_call>\n{"name": "list", "arguments": {}}\n</tool_call>`
const tools = ['read', 'list'].map((name) => ({ type: 'function', function: { name, parameters: {} } }))
const chat = (rig: Rig, json: object, headers: Record<string, string> = {}): Promise<Response> =>
  rig.fetch('/v1/chat/completions', { json: { model: 'policy', ...json }, headers })

test('the stream of a tool call has the expected chunks', async () => {
  const rig = await startRig({ script: () => READ })
  try {
    const response = await chat(rig, {
      messages: [USER('Read a')],
      tools,
      stream: true,
      stream_options: { include_usage: true },
    })
    const lines: string[] = []
    for await (const line of sse(response)) lines.push(line)
    assert.equal(lines.pop(), '[DONE]')
    const chunks = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    const { id, created, model, system_fingerprint: fingerprint } = chunks[0]!
    assert.equal(model, 'policy')
    const chunk = (choices: object[], usage: object | null = null): object => ({
      id,
      created,
      model,
      system_fingerprint: fingerprint,
      object: 'chat.completion.chunk',
      choices,
      usage,
    })
    const delta = (inner: object, finish: string | null = null): object =>
      chunk([{ index: 0, delta: inner, logprobs: null, finish_reason: finish }])
    assert.deepEqual(chunks, [
      delta({ role: 'assistant', content: '' }),
      delta({
        tool_calls: [
          { index: 0, id: turn.toolCallIds[0], type: 'function', function: { name: 'read', arguments: '' } },
        ],
      }),
      delta({ tool_calls: [{ index: 0, function: { arguments: '{"path": "a"}' } }] }),
      delta({}, 'tool_calls'),
      chunk([], {
        prompt_tokens: turn.prompt.length,
        completion_tokens: turn.ids.length,
        total_tokens: turn.prompt.length + turn.ids.length,
        prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      }),
    ])
  } finally {
    await rig.stop()
  }
})

test('content is null beside calls without text, and null, empty and absent content are the same answer when they come back', async () => {
  const log = openMemoryLog()
  const rig = await startRig({ log, script: (_, prompt) => (prompt.includes('contents') ? 'It says hello.' : TWO) })
  try {
    for (const [i, content] of [
      { content: null },
      { content: '' },
      {},
      { content: [] },
      { content: [{ type: 'text', text: '' }] },
    ].entries()) {
      const asked = USER(`Read a, for the ${i}th time`)
      const answer = await chat(rig, { messages: [asked], tools })
      const {
        choices: [choice],
      } = (await answer.json()) as {
        choices: { message: { content: null; tool_calls: { id: string }[] }; finish_reason: string }[]
      }
      assert.deepEqual(
        [choice!.message.content, choice!.message.tool_calls.length, choice!.finish_reason],
        [null, 2, 'tool_calls'],
      )
      const results = choice!.message.tool_calls.map(({ id }) => ({
        role: 'tool',
        tool_call_id: id,
        content: 'contents',
      }))
      const next = await chat(rig, {
        messages: [asked, { role: 'assistant', ...content, tool_calls: choice!.message.tool_calls }, ...results],
        tools,
      })
      const turn = await turnOf(log, next.headers.get('x-instar-turn-id'))
      const before = await turnOf(log, answer.headers.get('x-instar-turn-id'))
      assert.deepEqual(
        [turn.session, turn.after, turn.offPrefix, turn.stateFrom],
        [before.session, before.answer, false, 2],
        JSON.stringify(content),
      )
    }
  } finally {
    await rig.stop()
  }
})

test('with tool_choice none tool markup stays text in Messages and Responses', async () => {
  const rig = await startRig({ script: () => READ })
  try {
    const said = async (path: string, json: object): Promise<string> =>
      (await rig.fetch(path, { json: { model: 'policy', ...json } })).text()
    assert.match(
      await said('/v1/messages', {
        max_tokens: 90,
        messages: [USER('Hi')],
        tools: [{ name: 'read', input_schema: {} }],
        tool_choice: { type: 'none' },
      }),
      /"type":"text","text":"<tool_call>.*"stop_reason":"end_turn"/,
    )
    assert.match(
      await said('/v1/responses', {
        input: 'Hi',
        tools: [{ type: 'function', name: 'read', parameters: {} }],
        tool_choice: 'none',
      }),
      /"type":"output_text","text":"<tool_call>/,
    )
  } finally {
    await rig.stop()
  }
})

test('images, sounds and files are refused with their place, in each dialect', async () => {
  const rig = await startRig()
  try {
    const part = (type: string): object => ({ type, [type]: { url: 'data:,' } })
    const refusals: [path: string, json: object, place: string][] = [
      [
        '/v1/chat/completions',
        { messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, part('image_url')] }] },
        'messages[0].content[1]',
      ],
      [
        '/v1/chat/completions',
        { messages: [{ role: 'user', content: [part('input_audio')] }] },
        'messages[0].content[0]',
      ],
      ['/v1/responses', { input: [{ role: 'user', content: [part('input_image')] }] }, 'input[0].content[0]'],
      [
        '/v1/responses',
        { input: [{ type: 'function_call_output', call_id: 'c', output: [part('input_file')] }] },
        'input[0].output[0]',
      ],
      [
        '/v1/messages',
        {
          max_tokens: 5,
          messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [part('image')] }] }],
        },
        'messages[0].content[0].content[0]',
      ],
    ]
    for (const [path, json, place] of refusals) {
      const response = await rig.fetch(path, { json })
      assert.equal(response.status, 400)
      const { error } = (await response.json()) as { error: { message: string; code: string } }
      assert.ok(
        error.code === 'bad_request' && error.message.startsWith(`${place} is of type`),
        `${path}: ${error.message}`,
      )
    }
    assert.deepEqual(await turnsOf(rig.log), [])
  } finally {
    await rig.stop()
  }
})

test('a prompt of 30 MB is refused as too long in each dialect, without being encoded', async () => {
  const rig = await startRig()
  try {
    const content = 'word '.repeat(6_000_000)
    const before = process.cpuUsage()
    for (const [path, json] of [
      ['/v1/chat/completions', { messages: [USER(content)], stream: true }],
      ['/v1/responses', { input: content }],
      ['/v1/messages', { max_tokens: 9, messages: [USER(content)] }],
    ] as const) {
      const response = await rig.fetch(path, { json })
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      assert.deepEqual([response.status, error.code], [400, 'context_length_exceeded'], path)
      const [, given, most] = /prompt is too long: (\d+) tokens > (\d+) maximum/.exec(error.message)!
      assert.ok(Number(given) > 5_000_000 && Number(most) < 10_000, error.message)
    }
    const counted = await rig.fetch('/v1/messages/count_tokens', { json: { messages: [USER(content)] } })
    const { input_tokens: tokens } = (await counted.json()) as { input_tokens: number }
    assert.ok(tokens > 5_000_000, String(tokens))
    const described = await chat(rig, {
      messages: [USER('Hi')],
      tools: [{ type: 'function', function: { name: 'f', description: content.slice(0, 12_000_000), parameters: {} } }],
    })
    assert.deepEqual(
      [described.status, ((await described.json()) as { error: { code: string } }).error.code],
      [400, 'context_length_exceeded'],
    )
    const { user, system } = process.cpuUsage(before)
    // Encoding them takes half a minute each.
    assert.ok((user + system) / 1e6 < 12, `${(user + system) / 1e6} s of CPU for five of them, and for sending them`)
    const large = await chat(rig, { messages: [USER('Hi')], metadata: { padding: 'x'.repeat(30_000_000) } })
    assert.equal(large.status, 200)
  } finally {
    await rig.stop()
  }
})

test('other requests are answered while 30 MB arrive and are checked', async () => {
  const rig = await startRig()
  const socket = connect(Number(new URL(rig.url).port), '127.0.0.1')
  try {
    const body = Buffer.from(JSON.stringify({ model: 'policy', messages: [USER('word '.repeat(6_000_000))] }))
    const half = body.length >> 1
    const answered = text(socket)
    let open = true
    void answered.then(() => {
      open = false
    })
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`,
    )
    await new Promise((resolve) => {
      socket.write(body.subarray(0, half), resolve)
    })
    assert.equal((await chat(rig, { messages: [USER('Hi')] })).status, 200)
    assert.equal(open, true)
    socket.write(body.subarray(half))
    const waits: number[] = []
    while (open) {
      const from = performance.now()
      assert.equal((await chat(rig, { messages: [USER('Hi')] })).status, 200)
      waits.push(performance.now() - from)
    }
    assert.match(await answered, /^HTTP\/1\.1 400 [^]*context_length_exceeded/)
    // A blocked event loop would delay the others: encoding takes half a minute.
    assert.ok(Math.max(...waits) < 3000, `${Math.max(...waits)} ms for a short request`)
  } finally {
    socket.destroy()
    await rig.stop()
  }
})

test('one connection serves a stream, a whole answer, an error and another stream', async () => {
  const rig = await startRig()
  const socket = connect(Number(new URL(rig.url).port), '127.0.0.1')
  try {
    let heard = ''
    socket.setEncoding('utf8').on('data', (data: string) => {
      heard += data
    })
    const asked = async (json: object, end: string): Promise<string> => {
      const body = JSON.stringify({ model: 'policy', messages: [USER('Hi')], ...json })
      heard = ''
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      while (!heard.endsWith(end)) await once(socket, 'data')
      return heard
    }
    for (const json of [{ stream: true }, { stream: true, n: 2 }]) {
      const streamed = await asked(json, '0\r\n\r\n')
      assert.match(streamed, /^HTTP\/1\.1 200 OK\r\n/)
      assert.ok(streamed.includes('data: [DONE]'))
      assert.match(await asked({}, '}}'), /^HTTP\/1\.1 200 OK\r\n[^]*"finish_reason":"stop"/)
      assert.match(await asked({ messages: 5 }, '}}'), /^HTTP\/1\.1 400 [^]*bad_request/)
    }
    assert.equal((await turnsOf(rig.log)).length, 5)
  } finally {
    socket.destroy()
    await rig.stop()
  }
})

test('a title request before the first message and a subagent beside its parent do not wait for each other and keep their kinds', async () => {
  const held = gate()
  const rig = await startRig({
    script: (_, prompt) => ({
      text: 'A fine answer.',
      before: (i) => (i === 2 && prompt.includes('Parent, go') ? held.passed : undefined),
    }),
  })
  try {
    const session = { 'x-session-id': 'one' }
    const title = await chat(
      rig,
      {
        messages: [
          { role: 'system', content: 'You are a title generator. You output ONLY a thread title.' },
          USER('Parent'),
        ],
        max_tokens: 2,
      },
      session,
    )
    await title.text()
    const parent = chat(rig, { messages: [USER('Parent, go')], tools, stream: true }, session)
    const child = await chat(
      rig,
      { messages: [USER('Child, go')], tools },
      { 'thread-id': 'child', 'session-id': 'one' },
    )
    const again = await chat(rig, { messages: [USER('And you?')], tools }, session)
    assert.deepEqual([child.status, again.status], [200, 200])
    held.open()
    await (await parent).text()
    const turns = await turnsOf(rig.log)
    assert.deepEqual(
      turns.map(({ session: name, kind }) => [name, kind]),
      [
        ['one', 'side'],
        ['one', 'main'],
        ['child', 'main'],
        ['one', 'main'],
      ],
    )
  } finally {
    held.open()
    await rig.stop()
  }
})

test('sealed and signed fields of other providers are ignored', async () => {
  const rig = await startRig()
  try {
    const foreign = ['gAAAAABm', '', mintId('sealed', 'nobody', `nobody.${'1'.repeat(32)}`)]
    for (const encrypted of foreign) {
      const answer = await rig.fetch('/v1/responses', {
        json: {
          input: [
            { role: 'user', content: 'Hi' },
            { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: encrypted },
            { type: 'message', role: 'assistant', content: 'Hello.' },
            { role: 'user', content: 'Go on' },
          ],
        },
      })
      assert.equal(answer.status, 200, await answer.text())
    }
    const thought = await rig.fetch('/v1/messages', {
      json: {
        max_tokens: 9,
        messages: [
          USER('Hi'),
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'Hm.', signature: 'EqQBCgIYAhIM' },
              { type: 'redacted_thinking', data: 'xyz' },
              { type: 'text', text: 'Hello.' },
            ],
          },
          USER('Go on'),
        ],
      },
    })
    assert.equal(thought.status, 200)
    const [first, ...rest] = await turnsOf(rig.log)
    assert.ok(
      rest.every(({ session, after }) => session === first!.session && after?.strict === first!.after?.strict),
      'one conversation, by its words',
    )
  } finally {
    await rig.stop()
  }
})
