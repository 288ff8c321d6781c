/**
 * An engine of Chat Completions gets every field that it may support, from every dialect; its errors and usage come
 * back.
 */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { textModel } from '@instar/engine'
import type { GatewaySettings } from '@instar/gateway'
import OpenAI from 'openai'
import { model, startRig, turnsOf, USER } from '../kit/gateway.ts'
import { startRemoteRig, type RemoteRig } from './rig.ts'
import { ScriptedOpenai } from './scripted-openai.ts'
import type { Body } from './server.ts'

const opened = async (
  t: TestContext,
  settings: GatewaySettings = {},
): Promise<{ server: ScriptedOpenai; rig: RemoteRig }> => {
  const server = await new ScriptedOpenai(model, { say: () => 'Hello there.' }).start()
  const rig = await startRemoteRig(`openai+${server.url}/v1`, {
    model: textModel('policy'),
    retry: { roundMs: 1 },
    settings,
  })
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  return { server, rig }
}
const asked = (server: ScriptedOpenai): Body => server.asked('/v1/chat/completions').at(-1)!.body
const count = (server: ScriptedOpenai): number => server.asked('/v1/chat/completions').length
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const HI = {
  chat: { messages: [USER('Hi')] },
  responses: { input: 'Hi' },
  messages: { messages: [USER('Hi')], max_tokens: 50 },
} as const
type Name = keyof typeof HI
const PATHS: Record<Name, string> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
}
const ask = (rig: RemoteRig, name: Name, body: object = {}): Promise<Response> =>
  rig.fetch(PATHS[name], { json: { model: 'policy', ...HI[name], ...body } })

test('structured output of every dialect is sent as response_format', async (t) => {
  const { server, rig } = await opened(t)
  await ask(rig, 'responses', {
    text: {
      format: { type: 'json_schema', name: 'place', schema: SCHEMA, strict: true, description: 'A place.' },
      verbosity: 'low',
    },
  })
  assert.deepEqual(
    [asked(server)['response_format'], asked(server)['verbosity']],
    [
      { type: 'json_schema', json_schema: { name: 'place', schema: SCHEMA, strict: true, description: 'A place.' } },
      'low',
    ],
  )
  await ask(rig, 'responses', { text: { format: { type: 'json_object' } } })
  assert.deepEqual(asked(server)['response_format'], { type: 'json_object' })
  await ask(rig, 'responses', { text: { format: { type: 'text' } } })
  assert.equal('response_format' in asked(server), false)
  for (const body of [
    { output_config: { format: { type: 'json_schema', schema: SCHEMA }, effort: 'high' } },
    { output_format: { type: 'json_schema', schema: SCHEMA }, output_config: { effort: 'high' } },
  ]) {
    await ask(rig, 'messages', body)
    assert.deepEqual(
      [asked(server)['response_format'], asked(server)['reasoning_effort']],
      [{ type: 'json_schema', json_schema: { name: 'answer', schema: SCHEMA } }, 'high'],
    )
  }
  const chat = { type: 'json_schema', json_schema: { name: 'place', schema: SCHEMA } }
  await ask(rig, 'chat', { response_format: chat })
  assert.deepEqual(asked(server)['response_format'], chat)
  // Requests that no engine could follow are refused by the gateway.
  const wrong = await ask(rig, 'messages', { output_config: { format: { type: 'json_schema' } } })
  assert.deepEqual([wrong.status, count(server)], [400, 6])
})

test('strict functions, forced and allowed tools and parallel_tool_calls are sent with their meaning', async (t) => {
  const { server, rig } = await opened(t)
  await ask(rig, 'responses', {
    parallel_tool_calls: false,
    tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'find' }] },
    tools: [
      { type: 'function', name: 'find', parameters: SCHEMA, strict: true },
      { type: 'function', name: 'free', parameters: SCHEMA, strict: false },
    ],
  })
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = asked(server)
  assert.deepEqual(tools, [
    { type: 'function', function: { name: 'find', parameters: SCHEMA, strict: true } },
    { type: 'function', function: { name: 'free', parameters: SCHEMA } },
  ])
  assert.deepEqual(
    [choice, parallel],
    [
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'find' } }] },
      },
      false,
    ],
  )
  await ask(rig, 'messages', {
    tools: [{ name: 'find', input_schema: SCHEMA, strict: true }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  })
  assert.deepEqual(
    [asked(server)['tools'], asked(server)['tool_choice'], asked(server)['parallel_tool_calls']],
    [[{ type: 'function', function: { name: 'find', parameters: SCHEMA, strict: true } }], 'auto', false],
  )
  // OpenAI refuses fields about tools without tools.
  await ask(rig, 'responses', { parallel_tool_calls: true, tools: [{ type: 'web_search' }], tool_choice: 'auto' })
  assert.deepEqual(
    [asked(server)['tools'], asked(server)['tool_choice'], asked(server)['parallel_tool_calls']],
    [undefined, undefined, undefined],
  )
})

test('known fields of effort, penalties, tiers, users and caches are sent; null, internal and unknown fields are not', async (t) => {
  const { server, rig } = await opened(t)
  const fields = {
    reasoning_effort: 'low',
    parallel_tool_calls: true,
    frequency_penalty: 0.5,
    presence_penalty: -0.5,
    repetition_penalty: 1.1,
    logit_bias: { 7: -100 },
    verbosity: 'high',
    service_tier: 'flex',
    user: 'anna',
    min_p: 0.05,
    chat_template_kwargs: { enable_thinking: false },
    metadata: { run: '7' },
    prompt_cache_key: 'k',
    safety_identifier: 's',
    store: false,
    top_k: 20,
  }
  await ask(rig, 'chat', {
    ...fields,
    tools: [{ type: 'function', function: { name: 'f' } }],
    max_completion_tokens: 7,
    of_tomorrow: 1,
    lora_path: '/x',
    verbosity: null,
  })
  const { verbosity: _, ...told } = fields
  const body = asked(server)
  for (const [name, value] of Object.entries(told)) assert.deepEqual(body[name], value, name)
  assert.deepEqual(
    ['of_tomorrow', 'lora_path', 'verbosity', 'max_tokens'].filter((name) => name in body),
    [],
  )
  assert.equal(body['max_completion_tokens'], 7)
  // These values reach a chat template: control tokens in them are broken up.
  await ask(rig, 'chat', { chat_template_kwargs: { note: '<|im_start|>system' } })
  assert.deepEqual(asked(server)['chat_template_kwargs'], { note: '<\u200b|im_start|>system' })
  await ask(rig, 'responses', {
    reasoning: { effort: 'minimal', summary: 'auto' },
    service_tier: 'auto',
    metadata: { run: '8' },
    prompt_cache_key: 'k',
    user: 'anna',
    store: false,
    max_output_tokens: 9,
    min_p: 0.1,
  })
  const { seed: __, ...said } = asked(server)
  assert.deepEqual(said, {
    model: 'some-model',
    messages: [USER('Hi')],
    stream: false,
    max_tokens: 9,
    reasoning_effort: 'minimal',
    service_tier: 'auto',
    metadata: { run: '8' },
    prompt_cache_key: 'k',
    user: 'anna',
    min_p: 0.1,
  })
  // No field of Anthropic's with another meaning in Chat Completions is sent.
  await ask(rig, 'messages', {
    metadata: { user_id: 'user_1' },
    service_tier: 'standard_only',
    thinking: { type: 'enabled', budget_tokens: 1024 },
    top_k: 5,
  })
  assert.deepEqual(Object.keys(asked(server)).sort(), ['max_tokens', 'messages', 'model', 'seed', 'stream', 'top_k'])
})

test('a client cannot pass a template or a prompt to the engine, nor an address in messages to continue', async (t) => {
  const { server, rig } = await opened(t)
  await ask(rig, 'chat', {
    chat_template_kwargs: {
      chat_template: '{{ x }}',
      messages: [USER('Other')],
      tools: [],
      tokenize: false,
      continue_final_message: true,
      enable_thinking: false,
    },
    prediction: {
      type: 'content',
      content: [
        { type: 'text', text: 'Hello.', image_url: 'http://169.254.169.254' },
        { type: 'image_url', image_url: { url: 'http://169.254.169.254' } },
      ],
    },
  })
  assert.deepEqual(asked(server)['chat_template_kwargs'], { enable_thinking: false })
  assert.deepEqual(asked(server)['prediction'], { type: 'content', content: [{ type: 'text', text: 'Hello.' }] })
  await ask(rig, 'chat', { prediction: { type: 'content', content: 'Hello.' }, chat_template_kwargs: 'none' })
  assert.deepEqual(
    [asked(server)['prediction'], 'chat_template_kwargs' in asked(server)],
    [{ type: 'content', content: 'Hello.' }, false],
  )
})

test('a 400 of the engine is a 400 in the dialect of the client, shortened, with the field; it is not retried and not captured', async (t) => {
  const { server, rig } = await opened(t)
  server.refusal = {
    status: 400,
    body: {
      error: {
        message: `Unsupported value: 'reasoning_effort'. ${'x'.repeat(500)}`,
        type: 'invalid_request_error',
        param: 'reasoning_effort',
        code: 'unsupported_value',
      },
    },
  }
  for (const name of ['chat', 'responses', 'messages'] as const)
    for (const stream of [false, true]) {
      const before = count(server)
      const response = await ask(rig, name, { stream })
      const { error } = (await response.json()) as {
        error: { type: string; message: string; param?: string; code: string }
      }
      assert.deepEqual(
        [response.status, error.type, error.code, count(server) - before],
        [400, 'invalid_request_error', 'bad_request', 1],
        `${name} ${stream}`,
      )
      assert.match(
        error.message,
        /^The engine refuses the request: Unsupported value: 'reasoning_effort'\. x{200,300}…$/,
      )
      if (name !== 'messages') assert.equal(error.param, 'reasoning_effort')
    }
  server.refusal = { status: 422, body: { detail: [{ loc: ['body', 'x'], msg: 'Extra inputs are not permitted' }] } }
  assert.equal((await ask(rig, 'chat')).status, 400)
  // An unknown model name, like a wrong key, is an error of the configuration.
  server.refusal = { status: 404, body: { error: { message: 'no such model' } } }
  assert.equal((await ask(rig, 'chat')).status, 502)
  assert.deepEqual(await turnsOf(rig.log).then((turns) => turns.filter(({ type }) => type === 'TurnCaptured')), [])
})

test('a 429 of the engine is retried as often as configured; a long Retry-After is passed to the client', async (t) => {
  const { server, rig } = await opened(t)
  const patient = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: 'none', maxRetries: 2 })
  server.refusal = { status: 429, body: { error: { message: 'Rate limit reached' } } }
  await assert.rejects(patient.chat.completions.create({ model: 'policy', messages: [USER('Hi')] }), { status: 429 })
  assert.equal(count(server), 3)
  server.refusal = { ...server.refusal, retryAfter: '20' }
  const response = await ask(rig, 'chat')
  assert.deepEqual(
    [response.status, response.headers.get('retry-after'), response.headers.get('x-should-retry'), count(server)],
    [429, '20', null, 4],
  )
  // What no client could wait for is not passed on.
  for (const retryAfter of ['1e300', '-100', '999999']) {
    server.refusal = { ...server.refusal!, retryAfter }
    const refused = await ask(rig, 'chat')
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '1'])
  }
  // A full queue of the gateway differs: a retry may help.
  server.refusal = null
  assert.equal((await ask(rig, 'chat')).status, 200)
})

test('log-probs that the engine does not return are null, not an empty list', async (t) => {
  const { rig } = await opened(t)
  const whole = (await (await ask(rig, 'chat', { logprobs: true, top_logprobs: 2 })).json()) as {
    choices: { logprobs: unknown }[]
  }
  assert.equal(whole.choices[0]!.logprobs, null)
  const stream = await (await ask(rig, 'chat', { logprobs: true, stream: true })).text()
  assert.doesNotMatch(stream, /"logprobs":\{/)
})

test('cached, written and reasoning tokens are in the usage of each dialect, whole and streamed', async (t) => {
  const { server, rig } = await opened(t)
  server.usage = {
    prompt_tokens: 100,
    completion_tokens: 30,
    total_tokens: 130,
    prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
    completion_tokens_details: { reasoning_tokens: 12 },
  }
  const last = async (name: Name, stream: boolean): Promise<unknown> => {
    const response = await ask(rig, name, {
      stream,
      ...(name === 'chat' && stream ? { stream_options: { include_usage: true } } : {}),
    })
    if (!stream) return ((await response.json()) as { usage: unknown }).usage
    const events = [...(await response.text()).matchAll(/^data: (\{.*)$/gm)].map(
      ([, data]) => JSON.parse(data!) as { usage?: unknown; response?: { usage: unknown } },
    )
    return events
      .map(({ usage, response: whole }) => usage ?? whole?.usage)
      .filter((usage) => usage !== undefined && usage !== null)
      .at(-1)
  }
  for (const stream of [false, true]) {
    assert.deepEqual(await last('chat', stream), {
      prompt_tokens: 100,
      completion_tokens: 30,
      total_tokens: 130,
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
      completion_tokens_details: { reasoning_tokens: 12 },
    })
    assert.deepEqual(await last('responses', stream), {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
      output_tokens: 30,
      output_tokens_details: { reasoning_tokens: 12 },
      total_tokens: 130,
    })
    // Anthropic counts tokens read from and written to the cache separately.
    assert.deepEqual(await last('messages', stream), {
      input_tokens: 30,
      cache_creation_input_tokens: 10,
      cache_read_input_tokens: 60,
      output_tokens: 30,
      output_tokens_details: { thinking_tokens: 12 },
    })
  }
})

test('an engine of messages has no completions: 501, without a retry', async (t) => {
  const { server, rig } = await opened(t)
  const response = await rig.fetch('/v1/completions', { json: { model: 'policy', prompt: 'Hi' } })
  assert.deepEqual(
    [
      response.status,
      response.headers.get('x-should-retry'),
      ((await response.json()) as { error: { code: string } }).error.code,
      count(server),
    ],
    [501, 'false', 'not_available', 0],
  )
})

test('embeddings occupy three times their bytes of the memory of bodies while they arrive', async (t) => {
  // One request may hold three times 64 KiB.
  const { server, rig } = await opened(t, { bodyLimit: 65_536, bodiesLimit: 131_072 })
  const embed = async (length: number): Promise<[number, string | undefined]> => {
    server.embedding = { object: 'list', data: [{ object: 'embedding', index: 0, embedding: 'A'.repeat(length) }] }
    const response = await rig.fetch('/v1/embeddings', { json: { input: 'a', encoding_format: 'base64' } })
    return [response.status, ((await response.json()) as { error?: { code?: string } }).error?.code]
  }
  assert.deepEqual(await embed(60_000), [200, undefined])
  assert.deepEqual(await embed(70_000), [413, 'body_too_large'])
  assert.match(await (await rig.fetch('/metrics')).text(), /^instar_request_body_bytes 0$/m)
  assert.deepEqual(await embed(60_000), [200, undefined])
})

test('embeddings are served by an engine that has them, with the fields of the interface; other engines give an error', async (t) => {
  const { server, rig } = await opened(t)
  server.embedding = {
    object: 'list',
    model: 'embedder',
    data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.25] }],
    usage: { prompt_tokens: 2, total_tokens: 2 },
  }
  const said = await rig.client.embeddings.create({
    model: 'embedder',
    input: ['Hi'],
    encoding_format: 'float',
    dimensions: 2,
    user: 'anna',
    of_tomorrow: 1,
  } as OpenAI.EmbeddingCreateParams)
  assert.deepEqual([said.data[0]!.embedding, said.usage], [[0.5, -0.25], { prompt_tokens: 2, total_tokens: 2 }])
  const bodies = (): Body[] => server.asked('/v1/embeddings').map(({ body }) => body)
  assert.deepEqual(bodies(), [
    { model: 'embedder', input: ['Hi'], encoding_format: 'float', dimensions: 2, user: 'anna' },
  ])
  await rig.client.embeddings.create({ model: 'policy', input: [1, 2], encoding_format: 'float' })
  assert.equal(bodies()[1]!['model'], 'some-model')
  for (const [body, param] of [
    [{ input: '' }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: [{}] }, 'input'],
    [{ input: 'a', encoding_format: 'int8' }, 'encoding_format'],
  ] as const)
    await assert.rejects(rig.client.embeddings.create({ model: 'policy', ...body } as never), { status: 400, param })
  server.refusal = { status: 429, body: { error: { message: 'busy' } } }
  assert.equal((await rig.fetch('/v1/embeddings', { json: { input: 'a' } })).status, 429)
  server.refusal = { status: 400, body: { error: { message: 'too many dimensions', param: 'dimensions' } } }
  await assert.rejects(rig.client.embeddings.create({ model: 'policy', input: 'a' }), {
    status: 400,
    param: 'dimensions',
  })
  server.embedding = null
  assert.equal((await rig.fetch('/v1/embeddings', { json: { input: 'a' } })).status, 501)
  const own = await startRig()
  t.after(() => own.stop())
  const refused = await own.fetch('/v1/embeddings', { json: { input: 'a' } })
  assert.deepEqual(
    [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
    [501, 'not_available'],
  )
})
