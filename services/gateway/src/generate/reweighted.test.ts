/**
 * Penalties, biases and min-p on the real engine: their effect on an answer and its turn, and the values that are
 * refused.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openTokenizer } from '@instar/policy'
import OpenAI from 'openai'
import { turnOf, USER } from '../../../../test/kit/gateway.ts'
import { startTiny, type Tiny } from '../../../../test/kit/tiny.ts'

let tiny: Tiny
let client: OpenAI
before(async () => {
  tiny = await startTiny()
  client = new OpenAI({ baseURL: `${tiny.url}/v1`, apiKey: 'none', maxRetries: 0 })
})
after(() => tiny.stop())

const ASKED = { model: 'policy', messages: [USER('What is the capital of France?')], seed: 3, max_tokens: 24 }
const asked = async (
  body: object,
): Promise<{ ids: number[]; reason: string | null; trainable: boolean; logprobs: number[] }> => {
  const { response } = await client.chat.completions
    .create({ ...ASKED, ...body } as OpenAI.ChatCompletionCreateParamsNonStreaming)
    .withResponse()
  return turnOf(tiny.log, response.headers.get('x-instar-turn-id'))
}

test('penalties, biases and min-p change sampling and log-probs, and the turn is captured with the reason reweighted', async () => {
  const model = await openTokenizer('models/tiny')
  const plain = await asked({})
  assert.deepEqual([plain.reason, plain.trainable], [null, true])
  // Neutral values have no effect: clients send their defaults.
  const none = await asked({
    frequency_penalty: 0,
    presence_penalty: 0,
    repetition_penalty: 1,
    min_p: 0,
    logit_bias: {},
  })
  assert.deepEqual([none.ids, none.reason], [plain.ids, null])
  const first = plain.ids[0]!
  const banned = await asked({ logit_bias: { [first]: -100 } })
  assert.equal(banned.ids.includes(first), false)
  const [word] = model.encode(' yes')
  const forced = await asked({ logit_bias: { [word!]: 100 }, max_tokens: 5 })
  assert.deepEqual(
    forced.ids,
    Array.from({ length: 5 }, () => word),
  )
  assert.ok(forced.logprobs.every((logprob) => logprob > -1e-6))
  const varied = await asked({
    logit_bias: { [word!]: 100 },
    frequency_penalty: 2,
    presence_penalty: 2,
    repetition_penalty: 10,
    max_tokens: 5,
  })
  assert.ok(varied.ids.filter((id) => id === word).length < 5)
  // At min_p 1 only the most likely token is left: the same as greedy at any temperature.
  const greedy = await asked({ temperature: 0 })
  const likeliest = await asked({ min_p: 1, temperature: 2 })
  assert.deepEqual([likeliest.ids, likeliest.logprobs.every((logprob) => logprob > -1e-6)], [greedy.ids, true])
  for (const turn of [banned, forced, varied, likeliest])
    assert.deepEqual([turn.trainable, turn.reason, turn.ids.length], [false, 'reweighted', turn.logprobs.length])
})

test('an invalid bias and out-of-range values give 400 with the field, in each dialect', async () => {
  for (const [body, param] of [
    [{ logit_bias: { 999_999: 1 } }, 'logit_bias'],
    [{ logit_bias: { x: 1 } }, 'logit_bias'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias'],
    [{ frequency_penalty: 3 }, 'frequency_penalty'],
    [{ repetition_penalty: 0 }, 'repetition_penalty'],
    [{ min_p: 2 }, 'min_p'],
  ] as const) {
    await assert.rejects(
      client.chat.completions.create({ ...ASKED, ...body } as OpenAI.ChatCompletionCreateParamsNonStreaming),
      { status: 400, param },
      JSON.stringify(body),
    )
    await assert.rejects(
      client.responses.create({ model: 'policy', input: 'Hi', ...body } as never),
      { status: 400, param },
      JSON.stringify(body),
    )
    const said = await fetch(`${tiny.url}/v1/messages`, {
      method: 'POST',
      body: JSON.stringify({ model: 'policy', max_tokens: 5, messages: [USER('Hi')], ...body }),
    })
    assert.deepEqual(
      [said.status, ((await said.json()) as { error: { message: string } }).error.message.includes(param)],
      [400, true],
    )
  }
})
