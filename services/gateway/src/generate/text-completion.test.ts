/** `/v1/completions` on the real engine: continuation of texts and ids, with log-probs of prompt and answer. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Model } from '@instar/engine/port'
import { openModel, startServing } from '@instar/policy'
import type OpenAI from 'openai'
import { checkSize } from './completion-prompts.ts'
import { startRig, turnsOf, type Rig } from '../../../../test/kit/gateway.ts'

const TEXT = 'The capital of France is Paris, and the capital of'
let model: Model
let engine: Awaited<ReturnType<typeof startServing>>
let rig: Rig
let client: OpenAI
before(async () => {
  model = await openModel('models/tiny')
  engine = await startServing({ model: 'models/tiny', rows: 4, slots: 2, threads: 1 })
  rig = await startRig({ ports: { engine, model } })
  client = rig.client
})
after(async () => {
  await rig.stop()
  await engine.close()
})
type Logprobs = {
  tokens: string[]
  token_logprobs: (number | null)[]
  top_logprobs: (Record<string, number> | null)[]
  text_offset: number[]
}
const create = (body: object): Promise<OpenAI.Completion> =>
  client.completions.create({ model: 'policy', prompt: TEXT, ...body } as OpenAI.CompletionCreateParamsNonStreaming)

test('a text and its ids give the same answer, several prompts with n give choices in order, usage is the sum, and nothing is captured', async () => {
  const ids = model.encode(TEXT)
  const said = await create({ temperature: 0, max_tokens: 6 })
  assert.deepEqual([said.object, said.choices.length, said.choices[0]!.logprobs], ['text_completion', 1, null])
  const { completion_tokens: completion } = said.usage!
  assert.ok(completion >= 1 && completion <= 6)
  assert.equal(said.usage!.prompt_tokens, ids.length)
  assert.equal((await create({ prompt: ids, temperature: 0, max_tokens: 6 })).choices[0]!.text, said.choices[0]!.text)
  const many = await create({ prompt: [TEXT, 'Hello'], n: 2, temperature: 0, max_tokens: 4 })
  assert.deepEqual(
    many.choices.map(({ index }) => index),
    [0, 1, 2, 3],
  )
  assert.equal(many.choices[0]!.text, many.choices[1]!.text)
  assert.equal(many.usage!.prompt_tokens, ids.length + model.encode('Hello').length)
  const both = await create({ prompt: [ids, model.encode('Hello')], temperature: 0, max_tokens: 4 })
  assert.deepEqual(
    both.choices.map(({ text }) => text),
    [many.choices[0]!.text, many.choices[2]!.text],
  )
  // A seed fixes the samples; each of n candidates differs.
  const drawn = await create({ seed: 5, n: 3, max_tokens: 8, temperature: 2 })
  assert.deepEqual((await create({ seed: 5, n: 3, max_tokens: 8, temperature: 2 })).choices, drawn.choices)
  assert.ok(new Set(drawn.choices.map(({ text }) => text)).size > 1)
  assert.deepEqual(await turnsOf(rig.log), [])
})

test('echo with logprobs gives the log-probs of the prompt except its first token, as lm-eval reads them', async () => {
  const ids = model.encode(TEXT)
  const expected = await engine.score({
    prompt: ids.slice(0, 1),
    completion: ids.slice(1),
    adapter: null,
    temperature: 1,
  })
  const said = await create({ prompt: [ids], echo: true, logprobs: 1, max_tokens: 1, temperature: 0 })
  const logprobs = said.choices[0]!.logprobs as unknown as Logprobs
  assert.equal(logprobs.tokens.length, ids.length + 1)
  assert.deepEqual([logprobs.token_logprobs[0], logprobs.top_logprobs[0]], [null, null])
  assert.deepEqual(logprobs.token_logprobs.slice(1, -1), Array.from(expected))
  assert.deepEqual(
    logprobs.tokens.slice(0, -1),
    ids.map((id) => model.decode([id])),
  )
  assert.ok(said.choices[0]!.text.startsWith(TEXT))
  for (const [at, offset] of logprobs.text_offset.slice(0, -1).entries())
    assert.equal(offset, logprobs.tokens.slice(0, at).join('').length)
  const isGreedy = ({ token_logprobs: own, top_logprobs: top }: Logprobs, from: number): boolean =>
    own.slice(from, -1).every((one, i) => one === Math.max(...Object.values(top.slice(from, -1)[i]!)))
  assert.equal(isGreedy(logprobs, 1), false)
  const greedy = await create({ temperature: 0, max_tokens: 5, logprobs: 2 })
  const ending = model.encode(TEXT + greedy.choices[0]!.text)
  const again = (await create({ prompt: ending, echo: true, logprobs: 1, max_tokens: 1, temperature: 0 })).choices[0]!
    .logprobs as unknown as Logprobs
  assert.deepEqual(model.decode(ending.slice(0, ids.length)), TEXT)
  assert.equal(isGreedy(again, ids.length), true)
  for (const top of (greedy.choices[0]!.logprobs as unknown as Logprobs).top_logprobs)
    assert.equal(Object.keys(top!).length, 2)
  // Nothing is sampled with a limit of 0.
  const given = await create({ echo: true, logprobs: 0, max_tokens: 0 })
  assert.deepEqual(
    [
      given.choices[0]!.text,
      given.choices[0]!.finish_reason,
      given.usage!.completion_tokens,
      (given.choices[0]!.logprobs as unknown as Logprobs).tokens.length,
    ],
    [TEXT, 'length', 0, ids.length],
  )
})

test('a stream has the same text in pieces for each choice and usage at its end, and stop strings end it', async () => {
  const whole = await create({ temperature: 0, max_tokens: 8, echo: true, logprobs: 1 })
  let text = ''
  let usage: unknown = null
  const tokens: string[] = []
  const finishes: unknown[] = []
  for await (const chunk of await client.completions.create({
    model: 'policy',
    prompt: TEXT,
    temperature: 0,
    max_tokens: 8,
    echo: true,
    logprobs: 1,
    stream: true,
    stream_options: { include_usage: true },
  })) {
    usage = chunk.usage ?? usage
    for (const choice of chunk.choices) {
      text += choice.text
      tokens.push(...(choice.logprobs?.tokens ?? []))
      if (choice.finish_reason !== null) finishes.push(choice.finish_reason)
    }
  }
  assert.deepEqual(
    [text, tokens, finishes, usage],
    [
      whole.choices[0]!.text,
      (whole.choices[0]!.logprobs as unknown as Logprobs).tokens,
      [whole.choices[0]!.finish_reason],
      whole.usage,
    ],
  )
  const plain = (await create({ temperature: 0, max_tokens: 8 })).choices[0]!.text
  const stop = plain.slice(2, 4)
  const stopped = await create({ temperature: 0, max_tokens: 8, stop: [stop] })
  assert.deepEqual(
    [stopped.choices[0]!.text, stopped.choices[0]!.finish_reason],
    [plain.slice(0, plain.indexOf(stop)), 'stop'],
  )
})

test('an answer that is not streamed has at most 800,000 log-probs', () => {
  const asked = { stream: false, logprobs: 20, echo: false, n: 16, maxTokens: 18 }
  const prompts = Array.from({ length: 128 }, () => [5])
  checkSize(prompts, asked, model)
  checkSize(prompts, { ...asked, maxTokens: 19, stream: true }, model)
  checkSize(prompts, { ...asked, maxTokens: 400, logprobs: null }, model)
  for (const more of [{ maxTokens: 19 }, { echo: true }])
    assert.throws(() => checkSize(prompts, { ...asked, ...more }, model), { code: 'bad_request' })
})

test('an answer that is not streamed has at most a million tokens, echoed ones included, or one context', async () => {
  const asked = { stream: false, logprobs: null, echo: true, n: 16, maxTokens: 0 }
  const prompts = (count: number) => Array.from({ length: count }, () => Array.from({ length: 2000 }, () => 5))
  checkSize(prompts(31), asked, model)
  for (const more of [{ echo: false }, { stream: true }, { n: 1 }])
    checkSize(prompts(128), { ...asked, ...more }, model)
  assert.throws(() => checkSize(prompts(128), asked, model), { code: 'bad_request', message: /4096000 tokens/ })
  const short = Array.from({ length: 128 }, () => [5])
  assert.throws(() => checkSize(short, { ...asked, echo: false, maxTokens: 500 }, model), { message: /1024000 tokens/ })
  await assert.rejects(create({ prompt: prompts(32), echo: true, n: 16, max_tokens: 0 }), {
    status: 400,
    param: 'max_tokens',
    message: /1024000 tokens with the echoed prompts, and one that is not streamed at most 1000000/,
  })
  // A model whose context is larger.
  checkSize([[5]], { ...asked, n: 1, maxTokens: 2_000_000 }, { contextLength: 2_000_000 })
})

test('a prompt that is echoed in several choices is decoded once, and other requests are served between two', async (t) => {
  let passes = 0
  let next: NodeJS.Immediate
  const pass = (): void => {
    passes += 1
    next = setImmediate(pass)
  }
  next = setImmediate(pass)
  t.after(() => clearImmediate(next))
  const decoded: number[] = []
  const counted = Object.assign(Object.create(model) as Model, {
    decode(ids: number[]): string {
      if (ids.length > 1) decoded.push(passes)
      return model.decode(ids)
    },
  })
  const own = await startRig({ ports: { model: counted } })
  t.after(() => own.stop())
  const prompts = [`${TEXT} Italy`, TEXT, `${TEXT} Spain`].map((text) => model.encode(text))
  for (const stream of [false, true]) {
    decoded.length = 0
    const json = { model: 'policy', prompt: prompts, n: 16, echo: true, max_tokens: 0, stream }
    const said = await (await own.fetch('/v1/completions', { json })).text()
    assert.equal(said.split(TEXT).length - 1, 48)
    assert.equal(decoded.length, 3)
    assert.equal(new Set(decoded).size, 3)
  }
})

test('the memory of an answer is counted with that of bodies until it is sent', async (t) => {
  // One request may hold three times 64 KiB; a character of an answer takes 4 bytes.
  const own = await startRig({ ports: { engine, model }, settings: { bodyLimit: 65_536, bodiesLimit: 131_072 } })
  t.after(() => own.stop())
  const prompt = `${TEXT} `.repeat(100)
  const ask = (n: number, rest: object = {}): Promise<Response> =>
    own.fetch('/v1/completions', { json: { model: 'policy', prompt, n, echo: true, max_tokens: 0, ...rest } })
  assert.equal((await ask(1)).status, 200)
  const refused = await ask(16)
  assert.deepEqual(
    [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
    [413, 'body_too_large'],
  )
  // A log-prob takes 150 bytes.
  assert.equal((await ask(1, { prompt: TEXT, logprobs: 1 })).status, 200)
  assert.equal((await ask(1, { logprobs: 1 })).status, 413)
  assert.match(await (await own.fetch('/metrics')).text(), /^instar_request_body_bytes 0$/m)
})

test('unsupported values and unknown models give 400 with the field, also on the path without /v1', async () => {
  const wrong: [object, string][] = [
    [{ prompt: [] }, 'prompt'],
    [{ prompt: [[]] }, 'prompt'],
    [{ prompt: '' }, 'prompt'],
    [{ prompt: [1, 'a'] }, 'prompt'],
    [{ prompt: [999_999] }, 'prompt'],
    [{ prompt: Array.from({ length: 129 }, () => 'a') }, 'prompt'],
    [{ suffix: 'x' }, 'suffix'],
    [{ best_of: 3 }, 'best_of'],
    [{ logprobs: 21 }, 'logprobs'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ n: 17 }, 'n'],
    [{ stop: 'x'.repeat(4097) }, 'stop'],
    [{ stop: ['a', 'x'.repeat(4097)] }, 'stop'],
    [{ prompt: Array.from({ length: 128 }, () => [5]), n: 16, max_tokens: 47, logprobs: 20 }, 'logprobs'],
    [{ prompt: Array.from({ length: model.contextLength }, () => 5) }, 'messages'],
    [{ logit_bias: { 999_999: 1 } }, 'logit_bias'],
  ]
  for (const [body, param] of wrong)
    await assert.rejects(create(body), { status: 400, param }, JSON.stringify(body).slice(0, 60))
  await assert.rejects(create({ model: 'gpt' }), { status: 404, code: 'model_not_found' })
  assert.equal(
    (await rig.fetch('/completions/', { json: { model: 'policy', prompt: 'Hi', max_tokens: 1 } })).status,
    200,
  )
})
