import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { model, sse, turnOf, turnsOf, USER } from '../kit/gateway.ts'
import { Line, startRemoteRig, statusThat, type RemoteRig } from './rig.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import { logprobOf, type Behaviour } from './server.ts'

const PLAIN: Behaviour = { say: () => 'Hello there, how are you?' }
let vllm: ScriptedVllm
let rig: RemoteRig
let line: Line

before(async () => {
  vllm = await new ScriptedVllm(model, PLAIN).start()
  rig = await startRemoteRig(`vllm+${vllm.url}/v1`)
  line = new Line(rig)
  await line.start()
})
after(async () => {
  await rig.stop()
  await vllm.kill()
})
afterEach(() => {
  vllm.behaviour = PLAIN
})

const ask = async (body: object = {}): Promise<{ response: Response; text: string; json: Record<string, unknown> }> => {
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], ...body },
  })
  const json = (await response.json()) as { choices?: { message: { content: string } }[] }
  return { response, text: json.choices?.[0]?.message.content ?? '', json }
}
const turn = async (response: Response) => turnOf(rig.log, response.headers.get('x-instar-turn-id'))

test('the capabilities of the engine are queried at the start and printed in one line', () => {
  assert.equal(
    rig.line,
    'vllm 0.32.0 (base), 1 of 1 server: token ids, exact log-probs; adapters loaded at run time; context 512 tokens',
  )
})

test('the ids and log-probs on the log are those of the engine, and the request has all sampling fields', async () => {
  const { response, text, json } = await ask({ temperature: 0.7, seed: 5 })
  assert.equal(text, 'Hello there, how are you?')
  const said = await turn(response)
  const ids = [...model.encode('Hello there, how are you?'), model.endOfTurn[0]!]
  assert.deepEqual(said.ids, ids)
  assert.deepEqual(
    said.logprobs.map((one) => Math.round(one * 100) / 100),
    ids.map((id) => logprobOf(id, null)),
  )
  assert.equal(said.tokens, 'exact')
  assert.equal(said.trainable, true)
  assert.equal(said.engine, 'vllm 0.32.0, base')
  const promptTokens = model.promptIds([USER('Hi')], {}).length
  assert.deepEqual(json['usage'], {
    prompt_tokens: promptTokens,
    completion_tokens: ids.length,
    total_tokens: promptTokens + ids.length,
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  })
  const { body } = vllm.asked('/v1/completions').at(-1)!
  assert.deepEqual(body['prompt'], model.promptIds([USER('Hi')], {}))
  assert.deepEqual(
    [
      body['temperature'],
      body['top_p'],
      body['top_k'],
      body['min_p'],
      body['repetition_penalty'],
      body['seed'],
      body['stop_token_ids'],
    ],
    [0.7, 1, 0, 0, 1, 5, [model.endOfTurn[0]]],
  )
})

test('a stream has the pieces of the engine, without the stop string', async () => {
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], stream: true, stop: ['how'] },
  })
  let text = ''
  for await (const data of sse(response))
    if (data !== '[DONE]')
      text += (JSON.parse(data) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? ''
  assert.equal(text, 'Hello there, ')
  const said = await turn(response)
  assert.equal(said.tokens, 'exact')
  assert.ok(model.decode(said.ids).endsWith('how'))
})

test('a version is loaded from the shared folder under its digest, and requests that began on the base end on it', async () => {
  const adapter = await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 1)
  const { response } = await ask()
  assert.equal(response.headers.get('x-instar-version'), '1')
  const said = await turn(response)
  assert.equal(said.adapter, adapter.sha256)
  assert.deepEqual(
    said.logprobs.map((one) => Math.round(one * 100) / 100),
    said.ids.map((id) => logprobOf(id, adapter.sha256)),
  )
  assert.deepEqual([...vllm.loaded], [[`instar-${adapter.sha256.slice(0, 32)}`, adapter.sha256]])
  const pinned = await ask({ model: 'policy@0' })
  assert.equal((await turn(pinned.response)).adapter, null)
})

for (const [what, behaviour, reason] of [
  ['no ids', { withoutIds: true }, 'no_ids'],
  ['no log-probs', { withoutLogprobs: true }, 'no_logprobs'],
  ['another count of tokens', { count: (tokens: number) => tokens + 1 }, 'token_count_differs'],
] as const) {
  test(`an engine that sends ${what}: the client gets the answer, and the turn has the reason ${reason} and no tokens`, async () => {
    vllm.behaviour = { ...PLAIN, ...behaviour }
    const { response, text } = await ask()
    assert.equal(text, 'Hello there, how are you?')
    const said = await turn(response)
    assert.deepEqual(
      [said.tokens, said.ids, said.logprobs, said.trainable, said.reason],
      ['none', [], [], false, reason],
    )
    assert.equal(Buffer.from(said.text.bytes).toString(), 'Hello there, how are you?')
  })
}

test('a prompt beyond the context of the engine gives context_length_exceeded', async () => {
  const { response, json } = await ask({ messages: [USER('word '.repeat(600))] })
  assert.equal(response.status, 400)
  assert.equal((json['error'] as { code: string }).code, 'context_length_exceeded')
})

test('the log holds captured turns only', async () => {
  assert.ok((await turnsOf(rig.log)).every((one) => one.type === 'TurnCaptured'))
})
