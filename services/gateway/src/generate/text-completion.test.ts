/** `/v1/completions` on the real engine: continuation of texts and ids, with log-probs of prompt and answer. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Model } from '@instar/engine/port'
import { openModel, startServing } from '@instar/policy'
import type OpenAI from 'openai'
import { checkLogprobs } from './completion-prompts.ts'
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

test('an answer that is not streamed has at most two million log-probs', () => {
  const asked = { stream: false, logprobs: 20, echo: false, n: 16, maxTokens: 46 }
  const prompts = Array.from({ length: 128 }, () => [5])
  checkLogprobs(prompts, asked, model)
  checkLogprobs(prompts, { ...asked, maxTokens: 47, stream: true }, model)
  checkLogprobs(prompts, { ...asked, maxTokens: 1000, logprobs: null }, model)
  for (const more of [{ maxTokens: 47 }, { echo: true }])
    assert.throws(() => checkLogprobs(prompts, { ...asked, ...more }, model), { code: 'bad_request' })
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
