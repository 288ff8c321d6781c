/**
 * Texts that are certainly too long are refused by their length, since encoding them would block the event loop for
 * seconds.
 */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { Model } from '@instar/engine/port'
import { openModel } from '@instar/policy'
import { readSettings } from '@instar/process'
import { tokenizerModel } from '../../../../test/kit/tokenizer-model.ts'
import { MOST_MESSAGES } from './core/overflow.ts'
import { beyondContext } from './counting.ts'
import type { Request } from '@instar/dialects'
import { startRig, USER } from '../../../../test/kit/gateway.ts'

const MEGABYTES_4 = 4_000_000
const TEXTS: [string, string][] = [
  ['blanks', ' '.repeat(MEGABYTES_4)],
  ['line ends', '\n'.repeat(MEGABYTES_4)],
  ['one word', 'a'.repeat(MEGABYTES_4)],
]
let tiny: Model
/** UTF-16 units that were encoded. */
let encoded = 0
before(async () => {
  const model = await openModel(readSettings({}, '/').model)
  tiny = {
    ...model,
    encode(text) {
      encoded += text.length
      return model.encode(text)
    },
    promptIds: () => assert.fail('a prompt that is too long is not encoded'),
  }
})

test('no text has fewer tokens than its length divided by the longest token', () => {
  assert.equal(tiny.longestToken, 14)
  for (const text of ['What is the capital of France?', ' '.repeat(500), 'naïve café — 漢字 😀', 'aaaa'.repeat(100)]) {
    assert.ok(tiny.encode(text).length >= text.length / 14, text.slice(0, 20))
  }
})

for (const [name, text] of TEXTS) {
  test(`4 MB of ${name} exceed the context and are not encoded`, () => {
    encoded = 0
    const messages = [USER(text), { role: 'assistant', content: 'yes' }, USER('no')]
    const tokens = beyondContext(tiny, { messages, tools: [] } as unknown as Request)
    assert.ok(tokens !== null && tokens >= tiny.contextLength, `${tokens}`)
    assert.ok(encoded <= 16_384 * Math.ceil(tiny.contextLength / 1000) * 2, `${encoded} characters were encoded`)
  })
}

test('a completion prompt of 4 MB is refused before it is encoded', async () => {
  const rig = await startRig({ ports: { model: tiny } })
  try {
    encoded = 0
    const response = await rig.fetch('/v1/completions', {
      json: { model: 'policy', prompt: 'a'.repeat(MEGABYTES_4), max_tokens: 1 },
    })
    assert.equal(response.status, 400)
    assert.equal(((await response.json()) as { error: { code: string } }).error.code, 'context_length_exceeded')
    assert.equal(encoded, 0)
  } finally {
    await rig.stop()
  }
})

test('a completion prompt of 25 characters for each token of the context is refused during encoding, and other requests are served meanwhile', async () => {
  const rig = await startRig({ ports: { model: tiny } })
  try {
    const prompt = 'lorem ipsum '.repeat(2000)
    encoded = 0
    const asked = { model: 'policy', prompt: Array.from({ length: 100 }, () => prompt), max_tokens: 1 }
    const response = await rig.fetch('/v1/completions', { json: asked })
    assert.equal(((await response.json()) as { error: { code: string } }).error.code, 'context_length_exceeded')
    assert.ok(encoded <= 2 * 16_384, `${encoded} characters were encoded`)

    // One pass of the event loop must not encode two texts.
    let passes = 0
    let most = 0
    let inPass = 0
    let counting = true
    const count = (): void => {
      passes += 1
      most = Math.max(most, inPass)
      inPass = 0
      if (counting) setImmediate(count)
    }
    const slow: Model = {
      ...tiny,
      encode(text) {
        inPass += 1
        return tiny.encode(text)
      },
    }
    const other = await startRig({ ports: { model: slow } })
    setImmediate(count)
    const short = Array.from({ length: 20 }, (_, i) => `word ${i}`)
    assert.equal(
      (await other.fetch('/v1/completions', { json: { ...asked, prompt: short, max_tokens: 1 } })).status,
      200,
    )
    counting = false
    await other.stop()
    assert.equal(most, 1, `${passes} passes`)
  } finally {
    await rig.stop()
  }
})

test('a request of more messages than may be is refused before any is rendered, whichever dialect and route', async (t) => {
  let rendered = 0
  const tokenizer = tokenizerModel()
  const rig = await startRig({
    ports: {
      model: {
        ...tokenizer,
        contextLength: 1_000_000,
        promptIds: (messages, options) => {
          rendered += messages.length
          return tokenizer.promptIds(messages.slice(-1), options)
        },
      },
    },
  })
  t.after(() => rig.stop())
  const messages = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: 'x' }))
  const ask = async (path: string, field: string, count: number): Promise<[number, string | undefined]> => {
    const response = await rig.fetch(path, { json: { model: 'policy', max_tokens: 5, [field]: messages(count) } })
    return [response.status, ((await response.json()) as { error?: { message: string } }).error?.message]
  }
  const said = `The request has ${MOST_MESSAGES + 1} messages, those that it refers to included; at most ${MOST_MESSAGES} are taken.`
  for (const [path, field] of [
    ['/v1/chat/completions', 'messages'],
    ['/v1/messages', 'messages'],
    ['/v1/responses', 'input'],
    ['/v1/messages/count_tokens', 'messages'],
    ['/v1/responses/input_tokens', 'input'],
  ] as const)
    assert.deepEqual(await ask(path, field, MOST_MESSAGES + 1), [400, said], path)
  assert.equal(rendered, 0)
  assert.deepEqual(await ask('/v1/messages/count_tokens', 'messages', MOST_MESSAGES), [200, undefined])
  assert.equal(rendered, MOST_MESSAGES)
})
