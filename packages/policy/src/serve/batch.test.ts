import { test } from 'node:test'
import assert from 'node:assert/strict'
import { InstarError } from '@instar/events/errors'
import type { Lora } from '../checkpoints/peft.ts'
import type { GenerateRequest } from '@instar/engine/port'
import { Batcher } from './batch.ts'
import type { Decoder, DecodeRow } from './decoder.ts'
import type { BatchEvent } from './job.ts'
import { philox, uniform } from './random.ts'
import { logprobOf, sample } from './sample.ts'

const VOCABULARY = 64
const END = 63
const BYTES = { bytesOf: (id: number) => (id === END ? new Uint8Array(0) : Uint8Array.of(id + 64)) }
const lora = (alpha: number): Lora => ({ rank: 1, alpha, modules: new Map() })

/** Logits that depend on every id before them, in order, and on the adapter. */
function logitsAfter(ids: readonly number[], alpha: number): Float32Array {
  let state = alpha >>> 0
  for (const [i, id] of ids.entries()) state = philox([id, i, state, 0], [1, 2])[0]
  return Float32Array.from({ length: VOCABULARY }, (_, v) => (v === END ? -2 : 4 * uniform(state, v)))
}

/** Keeps the caches as a model would, and notes the size of each step. */
class FakeDecoder implements Decoder {
  readonly vocabulary = VOCABULARY
  readonly contextLength: number
  readonly rows: number
  readonly slots: number
  readonly steps: DecodeRow[][] = []
  readonly installed: (number | null)[] = []
  private readonly caches: number[][]
  private readonly alphas: number[]
  fault: Error | null = null
  during: (() => void) | null = null

  constructor(rows = 4, slots = 2, contextLength = 200) {
    this.rows = rows
    this.slots = slots
    this.contextLength = contextLength
    this.caches = Array.from({ length: rows }, () => [])
    this.alphas = Array.from({ length: slots }, () => 0)
  }

  async setAdapter(slot: number, adapter: Lora | null): Promise<void> {
    this.alphas[slot] = adapter?.alpha ?? 0
    this.installed.push(adapter?.alpha ?? null)
  }

  async step(rows: readonly DecodeRow[]): Promise<Float32Array[]> {
    this.steps.push([...rows])
    this.during?.()
    if (this.fault) throw this.fault
    return rows.map(({ row, keep, ids, slot, logits }) => {
      const cache = this.caches[row]!
      assert.ok(keep <= cache.length, `row ${row} keeps ${keep} of ${cache.length}`)
      cache.length = keep
      cache.push(...ids)
      assert.ok(cache.length <= this.contextLength)
      const out = new Float32Array(logits * VOCABULARY)
      for (let i = 0; i < logits; i++)
        out.set(
          logitsAfter(cache.slice(0, cache.length - logits + 1 + i), slot === null ? 0 : this.alphas[slot]!),
          i * VOCABULARY,
        )
      return out
    })
  }
}

const request = (
  prompt: number[],
  seed: number,
  more: Partial<GenerateRequest> = {},
  maxTokens = 12,
): GenerateRequest => ({
  prompt,
  sampling: { temperature: 1, topP: 1, topK: 0, seed, maxTokens, stop: [] },
  adapter: null,
  topLogprobs: 0,
  ...more,
})

const answer = (given: GenerateRequest) => ({ kind: 'generate', ...given }) as const

/** What a request must give, alone and without any cache. */
function alone({ prompt, sampling }: GenerateRequest, alpha: number): { ids: number[]; logprobs: number[] } {
  const ids = [...prompt]
  const logprobs: number[] = []
  while (logprobs.length < sampling.maxTokens && ids.at(-1) !== END) {
    const drawn = sample(logitsAfter(ids, alpha), sampling, uniform(sampling.seed, logprobs.length), 0)
    ids.push(drawn.id)
    logprobs.push(drawn.logprob)
  }
  return { ids: ids.slice(prompt.length), logprobs }
}

type Result = {
  ids: number[]
  logprobs: number[]
  text: string
  reason: string | null
  error: string | null
  score: Float32Array | null
}

function collect(events: readonly BatchEvent[], results: Map<number, Result>): void {
  for (const event of events) {
    const result = results.get(event.key) ?? { ids: [], logprobs: [], text: '', reason: null, error: null, score: null }
    results.set(event.key, result)
    assert.equal(result.reason, null, 'nothing follows the end')
    if (event.type === 'error') result.error = event.code
    else if (event.type === 'score') result.score = event.scores.logprobs
    else {
      for (const token of event.tokens) {
        result.ids.push(token.id)
        result.logprobs.push(token.logprob)
        result.text += token.text
      }
      if (event.end) {
        result.text += event.end.text
        result.reason = event.end.reason
      }
    }
  }
}

async function drain(batcher: Batcher, results = new Map<number, Result>()): Promise<Map<number, Result>> {
  for (let steps = 0; !batcher.idle(); steps++) {
    assert.ok(steps < 5000, 'the batch never ends')
    collect(await batcher.step(), results)
  }
  return results
}

const settings = { prefillBusy: 8, prefillIdle: 16 }
const prompt = (seed: number, length: number) => Array.from({ length }, (_, i) => Math.floor(uniform(seed, i) * 60))

test('forty requests of all lengths on three adapters give what each gives alone, on four rows and two slots', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [END], settings)
  for (const alpha of [1, 2, 3]) batcher.adapters.load(`a${alpha}`, lora(alpha))
  const requests = Array.from({ length: 40 }, (_, i) =>
    request(prompt(i, 1 + ((i * 7) % 50)), i, { adapter: i % 4 === 0 ? null : `a${i % 4}` }, 1 + ((i * 5) % 17)),
  )
  const results = new Map<number, Result>()
  for (const [i, each] of requests.entries()) {
    batcher.submit(i, answer(each))
    if (i % 3 === 0) collect(await batcher.step(), results)
  }
  await drain(batcher, results)
  assert.equal(results.size, 40)
  for (const [i, each] of requests.entries()) {
    const expected = alone(each, i % 4)
    const result = results.get(i)!
    assert.deepEqual(result.ids, expected.ids)
    assert.deepEqual(result.logprobs, expected.logprobs)
    assert.equal(result.reason, expected.ids.at(-1) === END ? 'stop' : 'length')
    assert.equal(
      result.text,
      expected.ids
        .filter((id) => id !== END)
        .map((id) => String.fromCharCode(id + 64))
        .join('')
        .replace(/[\x80-\xff]/g, '�'),
    )
  }
  assert.ok(
    decoder.steps.some((step) => new Set(step.map((row) => row.slot)).size >= 3),
    'one step mixed the base and two adapters',
  )
  for (const step of decoder.steps) {
    assert.equal(new Set(step.map((row) => row.row)).size, step.length)
    assert.ok(step.length * Math.max(...step.map((row) => row.ids.length)) <= settings.prefillIdle)
  }
})

test('a long prompt is read in bounded chunks while another row goes on, one token a step', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [], settings)
  batcher.submit(0, answer(request([1], 1, {}, 40)))
  collect(await batcher.step(), new Map())
  batcher.submit(1, answer(request(prompt(5, 80), 2, {}, 3)))
  const tokens: number[] = []
  for (let i = 0; i < 10; i++) tokens.push((await batcher.step()).filter((event) => event.key === 0).length)
  assert.deepEqual(
    tokens,
    Array.from({ length: 10 }, () => 1),
  )
  const chunks = decoder.steps.filter((step) => step[0]!.ids.length > 1).map((step) => step[0]!.ids.length)
  assert.deepEqual(
    chunks,
    Array.from({ length: 10 }, () => 8),
  )
})

test('a prompt that goes on from a finished answer is read from there on; under another adapter from the start', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [], settings)
  batcher.adapters.load('a1', lora(1))
  const first = request(prompt(1, 10), 1, { adapter: 'a1' }, 5)
  batcher.submit(0, answer(first))
  const { ids } = (await drain(batcher)).get(0)!
  const before = decoder.steps.length
  const second = request([...first.prompt, ...ids, 7, 8, 9], 2, { adapter: 'a1' }, 4)
  batcher.submit(1, answer(second))
  assert.deepEqual((await drain(batcher)).get(1)!.ids, alone(second, 1).ids)
  // The last sampled id was never fed, so 14 of 18 are there.
  assert.deepEqual([decoder.steps[before]![0]!.keep, decoder.steps[before]![0]!.ids.length], [14, 4])
  const third = { ...second, adapter: null }
  const from = decoder.steps.length
  batcher.submit(2, answer(third))
  assert.deepEqual((await drain(batcher)).get(2)!.ids, alone(third, 0).ids)
  assert.equal(decoder.steps[from]![0]!.keep, 0)
})

test('the same prompt twice is sampled from the cache with one id read again', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [], settings)
  const same = request(prompt(3, 12), 9, {}, 3)
  batcher.submit(0, answer(same))
  const first = (await drain(batcher)).get(0)!
  const from = decoder.steps.length
  batcher.submit(1, answer(same))
  assert.deepEqual((await drain(batcher)).get(1)!.ids, first.ids)
  assert.deepEqual([decoder.steps[from]![0]!.keep, decoder.steps[from]![0]!.ids.length], [11, 1])
})

test('a slot in use is never taken: the third adapter waits, in order, for one of two slots', async () => {
  const decoder = new FakeDecoder(4, 2)
  const batcher = new Batcher(decoder, BYTES, [], settings)
  for (const alpha of [1, 2, 3]) batcher.adapters.load(`a${alpha}`, lora(alpha))
  const requests = [1, 2, 3].map((alpha) => request([alpha], alpha, { adapter: `a${alpha}` }, 4 + alpha))
  for (const [i, each] of requests.entries()) batcher.submit(i, answer(each))
  const results = new Map<number, Result>()
  for (let i = 0; i < 4; i++) collect(await batcher.step(), results)
  assert.deepEqual(decoder.installed, [1, 2])
  await drain(batcher, results)
  assert.deepEqual(decoder.installed, [1, 2, 3])
  for (const [i, each] of requests.entries()) assert.deepEqual(results.get(i)!.ids, alone(each, i + 1).ids)
})

test('unloading ends an adapter for new requests only', async () => {
  const batcher = new Batcher(new FakeDecoder(1, 1), BYTES, [], settings)
  batcher.adapters.load('a1', lora(1))
  const running = request([5], 1, { adapter: 'a1' }, 6)
  batcher.submit(0, answer(running))
  batcher.submit(1, answer(running))
  const results = new Map<number, Result>()
  collect(await batcher.step(), results)
  batcher.adapters.unload('a1')
  batcher.submit(2, answer(running))
  await drain(batcher, results)
  assert.deepEqual(results.get(0)!.ids, alone(running, 1).ids)
  assert.deepEqual(results.get(1)!.ids, alone(running, 1).ids)
  assert.equal(results.get(2)!.error, 'unknown_adapter')
})

test('an aborted request says nothing more, waiting, reading, drawing or in the middle of a step; its row is reused cleanly', async () => {
  const decoder = new FakeDecoder(1, 1)
  const batcher = new Batcher(decoder, BYTES, [], settings)
  batcher.adapters.load('a1', lora(1))
  const long = request(prompt(2, 60), 1, { adapter: 'a1' }, 9)
  const last = request(prompt(2, 30), 4, {}, 6)
  for (const key of [0, 1, 2]) batcher.submit(key, answer(long))
  batcher.submit(3, answer(last))
  await batcher.step()
  batcher.abort(2)
  batcher.abort(0)
  decoder.during = () => batcher.abort(1)
  const events = await batcher.step()
  decoder.during = null
  assert.deepEqual(events, [])
  const results = await drain(batcher)
  assert.deepEqual([...results.keys()], [3])
  assert.deepEqual(results.get(3)!.ids, alone(last, 0).ids)
})

test('the answer ends with the context, and with maxTokens', async () => {
  const batcher = new Batcher(new FakeDecoder(2, 1, 20), BYTES, [], settings)
  batcher.submit(0, answer(request(prompt(1, 15), 1, {}, 100)))
  batcher.submit(1, answer(request(prompt(1, 15), 1, {}, 2)))
  const results = await drain(batcher)
  assert.deepEqual([results.get(0)!.ids.length, results.get(0)!.reason], [5, 'length'])
  assert.deepEqual([results.get(1)!.ids.length, results.get(1)!.reason], [2, 'length'])
})

test('a stop string ends the answer and is not shown; its tokens are reported', async () => {
  const plain = request([3], 8, {}, 10)
  const { ids } = alone(plain, 0)
  const text = ids.map((id) => String.fromCharCode(id + 64))
  const at = text.findIndex((_, i) => i >= 3 && ids[i]! < 63 && ids[i + 1]! < 63)
  assert.ok(at > 0)
  const stop = text[at]! + text[at + 1]!
  const batcher = new Batcher(new FakeDecoder(), BYTES, [], settings)
  batcher.submit(0, { kind: 'generate', ...plain, sampling: { ...plain.sampling, stop: [stop] } })
  const result = (await drain(batcher)).get(0)!
  const first = text.join('').indexOf(stop)
  assert.equal(result.text, text.join('').slice(0, first))
  assert.deepEqual(result.ids, ids.slice(0, first + 2))
  assert.equal(result.reason, 'stop')
})

test('scores are the log-probs of the completion, beside running answers', async () => {
  const batcher = new Batcher(new FakeDecoder(), BYTES, [END], settings)
  batcher.adapters.load('a2', lora(2))
  const [given, completion] = [prompt(4, 21), prompt(6, 33)]
  batcher.submit(0, answer(request(prompt(1, 40), 3, {}, 30)))
  batcher.submit(1, { kind: 'score', prompt: given, completion, adapter: 'a2', temperature: 0.7 } as const)
  const expected = completion.map((id, i) =>
    Math.fround(logprobOf(logitsAfter([...given, ...completion.slice(0, i)], 2), id, 0.7)),
  )
  assert.deepEqual([...(await drain(batcher)).get(1)!.score!], expected)
})

test('a fault of the decoder is told to the rows in that step, and the next requests go on', async () => {
  const decoder = new FakeDecoder(2, 1)
  const batcher = new Batcher(decoder, BYTES, [], settings)
  decoder.fault = new InstarError('internal', 'out of memory')
  batcher.submit(0, answer(request([1, 2, 3], 1)))
  batcher.submit(1, answer(request([1, 2], 1)))
  const results = await drain(batcher)
  assert.deepEqual([results.get(0)!.error, results.get(1)!.error], ['internal', 'internal'])
  decoder.fault = null
  const next = request([1, 2, 3], 1)
  batcher.submit(2, answer(next))
  assert.deepEqual((await drain(batcher)).get(2)!.ids, alone(next, 0).ids)
})
