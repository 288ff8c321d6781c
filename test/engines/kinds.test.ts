import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { TurnAborted, TurnCaptured } from '@instar/events'
import { textModel } from '@instar/engine'
import { torchPickle } from '../../packages/engine/src/protocols/torch-pickle.ts'
import { randomAdapter } from '../kit/random-model.ts'
import { model, turnOf, USER } from '../kit/gateway.ts'
import { Line, startRemoteRig, statusThat, type RemoteRig } from './rig.ts'
import { ScriptedLlamacpp } from './scripted-llamacpp.ts'
import { ScriptedOpenai } from './scripted-openai.ts'
import { ScriptedSglang } from './scripted-sglang.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import { logprobOf, type Behaviour, type Body, type ScriptedServer } from './server.ts'

const PLAIN: Behaviour = { say: () => 'Hello there, how are you?' }
const IDS = [...model.encode('Hello there, how are you?'), model.endOfTurn[0]!]

const opened = async (
  t: TestContext,
  kind: string,
  server: ScriptedServer,
  options: Parameters<typeof startRemoteRig>[1] = {},
): Promise<RemoteRig> => {
  await server.start()
  const rig = await startRemoteRig(`${kind}+${server.url}/v1`, options)
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  return rig
}

type Answer = {
  text: string
  turn: TurnCaptured | TurnAborted
  json: { choices: { message: Record<string, unknown>; finish_reason: string }[]; usage: unknown }
}
const ask = async (rig: RemoteRig, body: object = {}): Promise<Answer> => {
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], ...body },
  })
  const json = (await response.json()) as Answer['json']
  return {
    json,
    text: String(json.choices[0]?.message['content']),
    turn: await turnOf(rig.log, response.headers.get('x-instar-turn-id')),
  }
}
const rounded = (logprobs: readonly number[]): number[] => logprobs.map((one) => Math.round(one * 100) / 100)

for (const incremental of [false, true]) {
  test(`SGLang with ${incremental ? 'incremental' : 'cumulative'} events gives exact ids and log-probs and serves a version that is named by its digest`, async (t) => {
    const server = new ScriptedSglang(model, PLAIN)
    server.incremental = incremental
    const rig = await opened(t, 'sglang', server)
    assert.equal(
      rig.line,
      'sglang 0.5.23 (base), 1 of 1 server: token ids, exact log-probs without top_p and top_k; adapters loaded at run time; context 512 tokens',
    )
    const { text, turn } = await ask(rig, { temperature: 0.7 })
    assert.equal(text, 'Hello there, how are you?')
    assert.deepEqual(
      [turn.tokens, turn.ids, rounded(turn.logprobs)],
      ['exact', IDS, IDS.map((id) => logprobOf(id, null))],
    )
    const line = new Line(rig)
    await line.start()
    const adapter = await line.publishNext()
    await statusThat(rig, ({ serving }) => serving === 1)
    const second = await ask(rig)
    assert.deepEqual(
      [second.turn.adapter, rounded(second.turn.logprobs)],
      [adapter.sha256, IDS.map((id) => logprobOf(id, adapter.sha256))],
    )
    assert.deepEqual([...server.loaded.keys()], [`instar-${adapter.sha256.slice(0, 32)}`])
    // The server was restarted meanwhile: the adapter is loaded again, and the request is answered.
    server.forgetAll()
    const third = await ask(rig)
    assert.deepEqual([third.text, third.turn.adapter, server.loaded.size], [text, adapter.sha256, 1])
  })
}

test('SGLang that does not see the folder of adapters gets a version as tensors, one copy for each process, and again after it evicted it', async (t) => {
  const server = new ScriptedSglang(model, PLAIN)
  server.seesFolders = false
  server.processes = 2
  const rig = await opened(t, 'sglang', server)
  const line = new Line(rig)
  await line.start()
  const { sha256, weights, config } = await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 1)
  const asked = server.seen.filter(({ path }) => path === '/load_lora_adapter_from_tensors')
  const encoded = torchPickle(weights).toString('base64')
  const name = `instar-${sha256.slice(0, 32)}`
  assert.deepEqual(
    asked.map(({ body }) => body),
    [
      {},
      {
        lora_name: name,
        config_dict: JSON.parse(new TextDecoder().decode(config)) as unknown,
        serialized_named_tensors: [encoded, encoded],
      },
    ],
  )
  assert.deepEqual([...server.loaded], [[name, sha256]], 'the tensors that arrived have the digest of the file')
  const { text, turn } = await ask(rig)
  assert.deepEqual([turn.adapter, rounded(turn.logprobs)], [sha256, IDS.map((id) => logprobOf(id, sha256))])
  // It cannot load one from tensors again by itself, and says so in the stream.
  server.evict(name)
  const second = await ask(rig)
  assert.deepEqual([second.text, second.turn.adapter, [...server.loaded.keys()]], [text, sha256, [name]])
})

for (const [tensorsField, processes, reason] of [
  [null, 1, /Repo id must be .* from tensors: it takes no serialized_named_tensors/s],
  ['serialized_tensors', 1, /from tensors: it takes no serialized_named_tensors/],
  ['serialized_named_tensors', 100_000, /tensors are \d+ bytes for 100000 processes, above the limit of 268435456/],
] as const)
  test(`SGLang that sees no folder, with ${processes} processes and the field ${tensorsField} for tensors, keeps the version before and says why`, async (t) => {
    const server = new ScriptedSglang(model, PLAIN)
    server.seesFolders = false
    server.tensorsField = tensorsField
    server.processes = processes
    const rig = await opened(t, 'sglang', server)
    const line = new Line(rig)
    await line.start()
    await line.publishNext()
    const status = await statusThat(rig, ({ problem }) => problem !== null)
    assert.match(status.problem!.message, reason)
    assert.deepEqual([(await ask(rig)).turn.version, server.loaded.size], [0, 0])
  })

test('SGLang log-probs before top_p are not those of sampling, and such a turn holds no tokens', async (t) => {
  const rig = await opened(t, 'sglang', new ScriptedSglang(model, PLAIN))
  const { turn, text } = await ask(rig, { top_p: 0.9 })
  assert.deepEqual([text, turn.tokens, turn.reason], ['Hello there, how are you?', 'none', 'other_logprobs'])
})

test('SGLang without --enable-lora serves the base and reports why it loads no adapter', async (t) => {
  const server = new ScriptedSglang(model, PLAIN)
  server.lora = false
  const rig = await opened(t, 'sglang', server)
  assert.match(rig.line, /adapters not loaded: it was started without --enable-lora/)
  const line = new Line(rig)
  await line.start()
  await line.publishNext()
  const status = await statusThat(rig, ({ problem }) => problem !== null)
  assert.match(status.problem!.message, /--enable-lora/)
  assert.equal((await ask(rig)).turn.version, 0)
})

test('llama.cpp gives exact ids and log-probs after the samplers, and the adapter of its start is found by its name', async (t) => {
  const server = new ScriptedLlamacpp(model, PLAIN)
  const adapter = randomAdapter(5)
  server.files = [`/adapters/policy-${adapter.sha256.slice(0, 16)}.gguf`]
  const rig = await opened(t, 'llamacpp', server)
  assert.equal(
    rig.line,
    'llamacpp b9999-abc (tiny-f16.gguf), 1 of 1 server: token ids, exact log-probs; adapters loaded at run time; context 512 tokens',
  )
  const { text, turn } = await ask(rig, { temperature: 0.7, top_p: 0.9 })
  assert.equal(text, 'Hello there, how are you?')
  assert.deepEqual(
    [turn.tokens, turn.ids, rounded(turn.logprobs)],
    ['exact', IDS, IDS.map((id) => logprobOf(id, null))],
  )
  const line = new Line(rig)
  await line.start()
  await line.publishNext(adapter)
  await statusThat(rig, ({ serving }) => serving === 1)
  await ask(rig)
  assert.deepEqual(server.asked('/completion').at(-1)!.body['lora'], [{ id: 0, scale: 1 }])
  await line.publishNext(randomAdapter(6))
  const status = await statusThat(rig, ({ problem }) => problem !== null)
  assert.match(status.problem!.message, /loads no adapters at run time; convert the adapter to GGUF/)
  assert.equal((await ask(rig)).turn.version, 1)
})

test('llama.cpp sends no event for a token inside a character: the text is complete, and the turn has the reason no_ids', async (t) => {
  const rig = await opened(t, 'llamacpp', new ScriptedLlamacpp(model, { say: () => 'Fine 🦋 day' }))
  const { text, turn } = await ask(rig)
  assert.deepEqual([text, turn.tokens, turn.reason], ['Fine 🦋 day', 'none', 'no_ids'])
})

test('llama.cpp receives no stop strings: the gateway ends the answer at one and keeps its tokens', async (t) => {
  const server = new ScriptedLlamacpp(model, PLAIN)
  const rig = await opened(t, 'llamacpp', server)
  const { text, turn } = await ask(rig, { stop: ['how'] })
  assert.deepEqual([text, turn.tokens, turn.type === 'TurnCaptured' && turn.finish], ['Hello there, ', 'exact', 'stop'])
  assert.ok(model.decode(turn.ids).endsWith('how'))
  assert.equal(server.asked('/completion').at(-1)!.body['stop'], undefined)
})

test('a server of Chat Completions gets the messages; its text, reasoning and calls are returned and not trained on', async (t) => {
  const server = new ScriptedOpenai(model, PLAIN)
  server.key = 'secret'
  const rig = await opened(t, 'openai', server, { model: textModel('policy'), key: 'secret' })
  assert.match(
    rig.line,
    /^openai compatible \(some-model\), 1 of 1 server: text only, turns are captured but not trained on; adapters not loaded/,
  )
  const plain = await ask(rig, { temperature: 0.5, max_tokens: 50, stop: ['zzz'] })
  assert.deepEqual(
    [plain.text, plain.turn.tokens, plain.turn.ids, plain.turn.trainable, plain.turn.reason],
    ['Hello there.', 'none', [], false, 'no_tokens'],
  )
  assert.deepEqual(plain.json.usage, {
    prompt_tokens: 21,
    completion_tokens: 9,
    total_tokens: 30,
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  })
  const { body } = server.asked('/v1/chat/completions').at(-1)!
  assert.deepEqual(
    [body['model'], body['messages'], body['temperature'], body['max_tokens'], body['stop'], 'top_p' in body],
    ['some-model', [USER('Hi')], 0.5, 50, ['zzz'], false],
  )

  server.said = {
    reasoning: 'Which file?',
    content: 'I look.',
    calls: [
      { name: 'read', arguments: '{"path": "a.txt"}' },
      { name: 'odd', arguments: '{"broken' },
    ],
  }
  const tools = [
    { type: 'function', function: { name: 'read', parameters: { type: 'object', properties: {} } } },
    { type: 'function', function: { name: 'odd' } },
  ]
  const called = await ask(rig, { tools, tool_choice: 'required' })
  assert.equal(server.asked('/v1/chat/completions').at(-1)!.body['stream'], false)
  const [choice] = called.json.choices
  assert.equal(choice!.finish_reason, 'tool_calls')
  assert.equal(choice!.message['content'], 'I look.')
  assert.equal(choice!.message['reasoning_content'] ?? choice!.message['reasoning'], 'Which file?')
  assert.deepEqual(
    (choice!.message['tool_calls'] as { function: unknown }[]).map((call) => call.function),
    [
      { name: 'read', arguments: '{"path": "a.txt"}' },
      { name: 'odd', arguments: '{"broken' },
    ],
  )
  assert.equal(server.asked('/v1/chat/completions').at(-1)!.body['tool_choice'], 'required')
  assert.equal(called.turn.toolCallIds.length, 2)

  const follow = await ask(rig, { messages: [USER('Hi'), { role: 'assistant', content: plain.text }, USER('More')] })
  assert.equal(follow.turn.session, plain.turn.session)
})

test('an answer or event that is JSON without an answer is requested again', async (t) => {
  const server = new ScriptedOpenai(model, PLAIN)
  const rig = await opened(t, 'openai', server, { model: textModel('policy') })
  for (const none of ['null', '7', '"text"', '<html>']) {
    for (const stream of [false, true]) {
      server.instead = [none]
      const before = server.asked('/v1/chat/completions').length
      const response = await rig.fetch('/v1/chat/completions', {
        json: { model: 'policy', messages: [USER('Hi')], stream },
      })
      const text = await response.text()
      assert.deepEqual(
        [response.status, stream ? text.includes('[DONE]') : text.includes('Hello there.')],
        [200, true],
        `${none} ${stream}: ${text}`,
      )
      assert.equal(server.asked('/v1/chat/completions').length - before, 2, none)
    }
  }
})

test('an answer without a finish reason is an error and is not requested again', async (t) => {
  const server = new ScriptedOpenai(model, PLAIN)
  const rig = await opened(t, 'openai', server, { model: textModel('policy') })
  server.instead = [
    JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: null }] }),
  ]
  const before = server.asked('/v1/chat/completions').length
  const response = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
  assert.deepEqual(
    [response.status, ((await response.json()) as { error: { code: string } }).error.code],
    [503, 'engine_lost'],
  )
  assert.equal(server.asked('/v1/chat/completions').length - before, 1)
})

test('a wrong key of the engine gives an error that names its setting', async () => {
  const server = await new ScriptedOpenai(model, PLAIN).start()
  server.key = 'secret'
  try {
    await assert.rejects(
      startRemoteRig(`openai+${server.url}/v1`, { model: textModel('policy'), servedName: null, startMs: 0 }),
      (error: Error & { code: string }) =>
        error.code === 'engine_refused' && error.message.includes('INSTAR_ENGINE_KEY'),
    )
  } finally {
    await server.kill()
  }
})

test('penalties, biases and min-p reach each token engine in its own fields, and the turn is not trained on', async (t) => {
  const asked = {
    presence_penalty: 0.5,
    frequency_penalty: 0.25,
    repetition_penalty: 1.1,
    min_p: 0.05,
    logit_bias: { 7: -100 },
  }
  const same = { presence_penalty: 0.5, frequency_penalty: 0.25, min_p: 0.05 }
  const kinds = [
    [
      'vllm',
      new ScriptedVllm(model, PLAIN),
      '/v1/completions',
      (body: Body) => body,
      { ...same, repetition_penalty: 1.1, logit_bias: { 7: -100 } },
    ],
    [
      'sglang',
      new ScriptedSglang(model, PLAIN),
      '/generate',
      (body: Body) => body['sampling_params'] as Body,
      { ...same, repetition_penalty: 1.1, logit_bias: { 7: -100 } },
    ],
    [
      'llamacpp',
      new ScriptedLlamacpp(model, PLAIN),
      '/completion',
      (body: Body) => body,
      {
        ...same,
        repeat_penalty: 1.1,
        repeat_last_n: -1,
        logit_bias: [[7, -100]],
        samplers: ['penalties', 'temperature', 'min_p', 'top_k', 'top_p'],
      },
    ],
  ] as const
  for (const [kind, server, path, read, told] of kinds) {
    const rig = await opened(t, kind, server)
    const { turn } = await ask(rig, asked)
    const body = read(server.asked(path).at(-1)!.body)
    assert.deepEqual(Object.fromEntries(Object.keys(told).map((name) => [name, body[name]])), told, kind)
    assert.deepEqual([turn.tokens, turn.trainable, turn.reason], ['exact', false, 'reweighted'], kind)
    await ask(rig)
    const plain = read(server.asked(path).at(-1)!.body)
    assert.deepEqual([plain['presence_penalty'], plain['min_p'], 'logit_bias' in plain], [0, 0, false], kind)
  }
})
