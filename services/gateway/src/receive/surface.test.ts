/**
 * What clients of three APIs expect besides the answer: paths, old fields, error forms, documents, log-probs that are
 * not available.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type OpenAI from 'openai'
import { model, startRig, turnOf, USER, type Rig } from '../../../../test/kit/gateway.ts'

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
let rig: Rig
before(async () => {
  rig = await startRig({
    script: (_, prompt) =>
      prompt.includes('sum is 3') ? 'Three.' : prompt.includes('Adds') ? `I add.\n${CALL}\n${CALL}` : 'Hello there.',
  })
})
after(() => rig.stop())
const promptOf = (): string => model.decode(rig.engine.requests.at(-1)!.prompt)
const HI = { model: 'policy', messages: [USER('Hi')] }

test('paths without /v1, with it twice and with extra slashes are the same path', async () => {
  for (const path of [
    '/chat/completions',
    '/v1/chat/completions/',
    '//v1//chat/completions',
    '/v1/v1/chat/completions',
    '/s/one/chat/completions/',
    '/s/one/v1/chat/completions?x=1',
  ]) {
    const response = await rig.fetch(path, { json: HI })
    assert.equal(response.status, 200, path)
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    if (path.startsWith('/s/')) assert.equal(turn.session, 'one', path)
  }
  for (const path of ['/models', '/models/policy', '/v1/models/'])
    assert.equal((await rig.fetch(path)).status, 200, path)
  assert.equal((await rig.fetch('/responses', { json: { model: 'policy', input: 'Hi' } })).status, 200)
  const message = await rig.fetch('/v1/v1/messages/', { json: { ...HI, messages: [], max_tokens: 5 } })
  assert.deepEqual([message.status, ((await message.json()) as { type: string }).type], [400, 'error'])
  for (const path of ['/chat', '/v1', '/completionsx', '/v1/v1/v1/models'])
    assert.equal((await rig.fetch(path)).status, 404, path)
  const paths = Object.keys(((await (await rig.fetch('/openapi.json')).json()) as { paths: object }).paths)
  assert.deepEqual(
    paths.filter((path) => path.startsWith('/chat') || /.\/$/.test(path)),
    [],
  )
})

test('functions and function_call are converted to tools, and the call is returned in the old fields, streamed and whole', async () => {
  const functions = [
    { name: 'add', description: 'Adds', parameters: { type: 'object', properties: { a: { type: 'number' } } } },
  ]
  const asked = { model: 'policy' as const, messages: [USER('What is the sum?')], functions }
  const { data, response } = await rig.client.chat.completions
    .create(asked as OpenAI.ChatCompletionCreateParamsNonStreaming)
    .withResponse()
  const [choice] = data.choices
  assert.deepEqual(
    [choice!.finish_reason, choice!.message.content, choice!.message.function_call, choice!.message.tool_calls],
    ['function_call', 'I add.', { name: 'add', arguments: '{"a": 1}' }, undefined],
  )
  const prompt = promptOf()
  // The returned call joins the session and is rendered as a call and its result.
  const next = await rig.client.chat.completions
    .create({
      ...asked,
      messages: [...asked.messages, choice!.message, { role: 'function', name: 'add', content: 'the sum is 3' }],
    } as OpenAI.ChatCompletionCreateParamsNonStreaming)
    .withResponse()
  assert.equal(next.data.choices[0]!.message.content, 'Three.')
  assert.equal(next.response.headers.get('x-instar-session-id'), response.headers.get('x-instar-session-id'))
  assert.match(promptOf(), /"name": "add"[^]*\ntool\nthe sum is 3/)
  const modern = await rig.client.chat.completions.create({
    ...HI,
    messages: [USER('What is the sum?')],
    tools: functions.map((one) => ({ type: 'function' as const, function: one })),
  })
  assert.equal(promptOf(), prompt)
  assert.equal(modern.choices[0]!.message.tool_calls!.length, 2)
  const chunks: OpenAI.ChatCompletionChunk[] = []
  for await (const chunk of await rig.client.chat.completions.create({
    ...asked,
    stream: true,
  } as OpenAI.ChatCompletionCreateParamsStreaming))
    chunks.push(chunk)
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))
  assert.deepEqual(
    [
      deltas.flatMap(({ function_call: call }) => call?.name ?? []),
      deltas.map(({ function_call: call }) => call?.arguments ?? '').join(''),
      deltas.some(({ tool_calls: calls }) => calls !== undefined),
    ],
    [['add'], '{"a": 1}', false],
  )
  assert.equal(chunks.at(-1)!.choices[0]!.finish_reason, 'function_call')
  const none = await rig.client.chat.completions.create({
    ...asked,
    function_call: 'none',
  } as OpenAI.ChatCompletionCreateParamsNonStreaming)
  assert.equal(none.choices[0]!.finish_reason, 'stop')
  for (const [wrong, param] of [
    [{ functions: [{}] }, 'functions[0].name'],
    [{ functions: 5 }, 'functions'],
    [{ function_call: { name: 'other' } }, 'tool_choice'],
  ] as const)
    await assert.rejects(rig.client.chat.completions.create({ ...asked, ...wrong } as never), { status: 400, param })
})

test('the client of Anthropic gets errors and models in the form of Anthropic', async () => {
  const missing = await rig.fetch('/v1/models/nobody', { headers: { 'anthropic-version': '2023-06-01' } })
  const said = (await missing.json()) as { type: string; error: { type: string }; request_id: string }
  assert.deepEqual(
    [missing.status, said.type, said.error.type, said.request_id],
    [404, 'error', 'not_found_error', missing.headers.get('request-id')],
  )
  assert.equal(
    ((await (await rig.fetch('/v1/models/nobody')).json()) as { error: { code: string } }).error.code,
    'model_not_found',
  )
  const { data } = (await (await rig.fetch('/v1/models')).json()) as {
    data: { lifecycle: string; max_input_tokens: number }[]
  }
  assert.deepEqual(
    data.map(({ lifecycle, max_input_tokens: most }) => [lifecycle, most]),
    data.map(() => ['active', model.contextLength]),
  )
})

test('plain-text documents become text with title and context, in messages and tool results, and other documents are refused', async () => {
  const ask = (content: unknown): Promise<Response> =>
    rig.fetch('/v1/messages', { json: { model: 'policy', max_tokens: 5, messages: [{ role: 'user', content }] } })
  const text = {
    type: 'document',
    title: 'Rules',
    context: 'Of the house.',
    source: { type: 'text', media_type: 'text/plain', data: 'No shoes.' },
  }
  assert.equal((await ask([text, { type: 'text', text: 'May I?' }])).status, 200)
  assert.match(promptOf(), /Rules\nOf the house\.\nNo shoes\.\nMay I\?/)
  for (const content of ['Plain.', [{ type: 'text', text: 'Plain.' }]]) {
    assert.equal((await ask([{ type: 'document', source: { type: 'content', content } }])).status, 200)
    assert.match(promptOf(), /Plain\./)
  }
  assert.equal((await ask([{ type: 'tool_result', tool_use_id: 'x', content: [text] }])).status, 200)
  assert.match(promptOf(), /No shoes\./)
  const pdf = await ask([
    { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } },
  ])
  assert.deepEqual(
    [pdf.status, ((await pdf.json()) as { error: { message: string } }).error.message],
    [400, 'messages[0].content[0] is of type document; this model takes text only.'],
  )
})

test('parts with the type of an image, sound or file are refused, and unknown parts become their text', async () => {
  const kinds = [
    'image',
    'image_url',
    'input_image',
    'input_audio',
    'audio',
    'audio_url',
    'output_audio',
    'video',
    'video_url',
    'input_video',
    'file',
    'input_file',
    'document',
  ]
  const asks: Readonly<Record<string, (part: object) => object>> = {
    '/v1/chat/completions': (part) => ({ messages: [{ role: 'user', content: [part] }] }),
    '/v1/messages': (part) => ({ max_tokens: 5, messages: [{ role: 'user', content: [part] }] }),
    '/v1/messages ': (part) => ({
      max_tokens: 5,
      messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x', content: [part] }] }],
    }),
    '/v1/messages  ': (part) => ({ max_tokens: 5, system: [part], messages: [{ role: 'user', content: 'Hi' }] }),
    '/v1/responses': (part) => ({ input: [{ role: 'user', content: [part] }] }),
    '/v1/responses ': (part) => ({ input: [{ type: 'function_call_output', call_id: 'x', output: [part] }] }),
  }
  for (const [path, body] of Object.entries(asks)) {
    const ask = (part: object): Promise<Response> =>
      rig.fetch(path.trim(), { json: { model: 'policy', ...body(part) } })
    for (const type of kinds)
      for (const beside of [{}, { text: 'See', image_url: { url: 'http://127.0.0.1/' } }]) {
        const answer = await ask({ type, ...beside })
        const {
          error: { message },
        } = (await answer.json()) as { error: { message: string } }
        assert.equal(answer.status, 400, `${path} ${type}`)
        assert.ok(message.endsWith(`is of type ${type}; this model takes text only.`), message)
      }
    for (const part of [
      { text: 'Read this.' },
      { type: 'text', text: 'Read this.' },
      { type: 'input_text', text: 'Read this.' },
      { type: 'of_tomorrow', text: 'Read this.' },
    ]) {
      assert.equal((await ask(part)).status, 200, `${path} ${JSON.stringify(part)}`)
      assert.match(promptOf(), /Read this\./)
    }
  }
  const document = { type: 'document', source: { type: 'content', content: [{ type: 'image', text: 'See' }] } }
  assert.equal((await rig.fetch('/v1/messages', { json: asks['/v1/messages']!(document) })).status, 400)
  const answered = {
    role: 'assistant',
    content: [
      { type: 'image', text: 'Unseen' },
      { type: 'text', text: 'Seen' },
    ],
  }
  const going = { max_tokens: 5, messages: [USER('Hi'), answered, USER('And?')] }
  assert.equal((await rig.fetch('/v1/messages', { json: { model: 'policy', ...going } })).status, 200)
  assert.match(promptOf(), /assistant\nSeen/)
})

test('a response has the sampling settings in use, those of the model where the request has none', async () => {
  const { temperature, topP } = model.defaults
  const plain = await rig.client.responses.create({ model: 'policy', input: 'Hi' })
  assert.deepEqual([plain.temperature, plain.top_p], [temperature, topP])
  const said = await rig.client.responses.create({ model: 'policy', input: 'Hi', temperature: 0.3, top_p: 0.5 })
  assert.deepEqual([said.temperature, said.top_p], [0.3, 0.5])
})
