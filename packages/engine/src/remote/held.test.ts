/** What of an engine's responses is in memory while they are read, and which are refused before they are parsed. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test, type TestContext } from 'node:test'
import { startEngineHttp } from '../../../../test/kit/engine-http.ts'
import { JSON_LIMITS, scoreBytesMax } from '../protocols/answer-limits.ts'
import { openai } from '../protocols/openai.ts'
import { vllm } from '../protocols/vllm.ts'
import type { WireRequest } from '../protocols/wire.ts'
import type { EngineHttp } from './http.ts'
import { scoreOf } from './logprobs.ts'
import { deltas, wholeDelta } from './probe.ts'

const MIB = 1024 * 1024
const chat = (stream: boolean): WireRequest => ({
  model: 'm',
  adapter: null,
  prompt: [],
  sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] },
  topLogprobs: 0,
  endOfTurn: [],
  chat: { stream, messages: [], tools: [], fields: {} },
})

const start = (t: TestContext, answer: (response: ServerResponse) => void): Promise<EngineHttp> =>
  startEngineHttp(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    answer(response)
  })

/** Refuses to hold more than `limit`. */
const memory = (limit = Infinity) => {
  const counted = { now: 0, most: 0 }
  const hold = (bytes: number): void => {
    if (counted.now + bytes > limit) throw new Error('no room')
    counted.now += bytes
    counted.most = Math.max(counted.most, counted.now)
  }
  return { counted, hold }
}
const taken = async (pieces: AsyncIterable<{ text: string }>): Promise<string> => {
  let text = ''
  for await (const piece of pieces) text += piece.text
  return text
}

const wide = (fields: number): string =>
  `{${Array.from({ length: fields }, (_, i) => `"k${i}":1`).join(',')},"choices":[{"delta":{"content":"Hi"},"message":{"content":"Hi"}}]}`
const INNER = 5

test('an event or an answer of more than 20000 fields in an object, or a million lists, is refused before it is parsed', async (t) => {
  const lists = (count: number): string =>
    `{"choices":[{"delta":{"content":"Hi"},"message":{"content":"Hi"}}],"a":[${'[],'.repeat(count)}1]}`
  for (const [json, fits] of [
    [wide(JSON_LIMITS.widest - 1), true],
    [wide(JSON_LIMITS.widest), false],
    [lists(JSON_LIMITS.containers - INNER - 1), true],
    [lists(JSON_LIMITS.containers - INNER), false],
  ] as const) {
    const parse = t.mock.method(JSON, 'parse')
    const http = await start(t, (response) => response.end(`data: ${json}\n\ndata: [DONE]\n\n`))
    const whole = await start(t, (response) => response.end(json))
    const refused = { name: 'Error', kind: 'response', message: /more objects, lists or fields/ }
    if (fits) {
      assert.equal(await taken(deltas(http, openai, chat(true))), 'Hi')
      assert.equal((await wholeDelta(whole, openai, chat(false))).text, 'Hi')
    } else {
      await assert.rejects(taken(deltas(http, openai, chat(true))), refused)
      await assert.rejects(wholeDelta(whole, openai, chat(false)), refused)
      assert.ok(parse.mock.calls.every(({ arguments: [text] }) => text.length < 1000))
    }
    parse.mock.restore()
  }
})

const padded = (bytes: number): string =>
  `{"choices":[{"delta":{"content":"Hi"},"message":{"content":"Hi"}}],"pad":"${'x'.repeat(bytes)}"}`

test('an event counts twice while it arrives and what it is parsed to until its text was taken; a whole answer three times', async (t) => {
  const http = await start(t, (response) => response.end(`data: ${padded(2 * MIB)}\n\ndata: [DONE]\n\n`))
  const whole = await start(t, (response) => response.end(padded(2 * MIB)))
  const streamed = memory()
  assert.equal(await taken(deltas(http, openai, chat(true), undefined, { hold: streamed.hold })), 'Hi')
  assert.ok(streamed.counted.most >= 6 * MIB && streamed.counted.most < 8.5 * MIB, String(streamed.counted.most))
  assert.equal(streamed.counted.now, 0)
  const once = memory()
  assert.equal((await wholeDelta(whole, openai, chat(false), undefined, once.hold)).text, 'Hi')
  assert.ok(once.counted.most >= 8 * MIB && once.counted.most < 9.5 * MIB, String(once.counted.most))
  assert.equal(once.counted.now, 0)
  for (const { limit, read } of [
    {
      limit: 3 * MIB,
      read: (hold: (bytes: number) => void) => taken(deltas(http, openai, chat(true), undefined, { hold })),
    },
    {
      limit: 5 * MIB,
      read: (hold: (bytes: number) => void) => wholeDelta(whole, openai, chat(false), undefined, hold),
    },
  ]) {
    const little = memory(limit)
    await assert.rejects(read(little.hold), { message: 'no room' })
    assert.equal(little.counted.now, 0)
    assert.ok(little.counted.most > limit - MIB)
  }
})

test('what has arrived of a response that is not read counts, and no more once it is given up', async (t) => {
  const http = await start(t, (response) => response.end('x'.repeat(512 * 1024)))
  const { counted, hold } = memory()
  const arrived = Promise.withResolvers<void>()
  const { bytes } = await http.send('GET', '/', null, undefined, {
    hold(more) {
      hold(more)
      if (counted.now === 512 * 1024) arrived.resolve()
    },
  })
  await arrived.promise
  await bytes.return()
  assert.equal(counted.now, 0)
  const none = memory(100_000)
  await assert.rejects(
    http.send('GET', '/', null, undefined, { hold: none.hold }).then(async (one) => {
      for await (const _ of one.bytes) await new Promise((resolve) => setImmediate(resolve))
    }),
    { message: 'no room' },
  )
  assert.equal(none.counted.now, 0)
})

test('log-probs of two tokens take 1 MiB and 4 KiB at most, and count while they are read', async (t) => {
  const request = { model: 'm', adapter: null, prompt: [1], completion: [2] }
  const scores = (bytes: number): string => {
    const body = { choices: [{ prompt_logprobs: [null, { 2: { logprob: -1 } }] }], pad: '' }
    return JSON.stringify({ ...body, pad: 'x'.repeat(bytes - JSON.stringify(body).length) })
  }
  const most = scoreBytesMax(2)
  assert.equal(most, MIB + 4096)
  for (const bytes of [most, most + 1]) {
    const http = await start(t, (response) => response.end(scores(bytes)))
    const { counted, hold } = memory()
    const scored = scoreOf(http, vllm, request, undefined, hold)
    if (bytes === most) assert.deepEqual(await scored, [-1])
    else await assert.rejects(scored, { kind: 'response', message: `the response has more than ${most} bytes` })
    assert.ok(counted.most > 3 * MIB - 200_000, String(counted.most))
    assert.equal(counted.now, 0)
  }
})

test('log-probs that cannot be read count no more, whatever their protocol throws', async (t) => {
  const http = await start(t, (response) => response.end(JSON.stringify({ choices: [], pad: 'x'.repeat(MIB / 2) })))
  const { counted, hold } = memory()
  const broken = {
    ...vllm,
    score: {
      ...vllm.score!,
      read: () => {
        throw new TypeError('no field')
      },
    },
  }
  await assert.rejects(
    scoreOf(http, broken, { model: 'm', adapter: null, prompt: [1], completion: [2] }, undefined, hold),
    { message: 'no field' },
  )
  assert.ok(counted.most > MIB / 2, String(counted.most))
  assert.equal(counted.now, 0)
})
