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

/** Logits that depend on all ids, their order, and the adapter. */
function logitsAfter(ids: readonly number[], alpha: number): Float32Array {
  let state = alpha >>> 0
  for (const [i, id] of ids.entries()) state = philox([id, i, state, 0], [1, 2])[0]
  return Float32Array.from({ length: VOCABULARY }, (_, v) => (v === END ? -2 : 4 * uniform(state, v)))
}

/** A decoder with the caches of a real one, which records its steps. */
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

const generate = (generation: GenerateRequest) => ({ kind: 'generate', ...generation }) as const

/** The expected result of a request, computed without a batch and without a cache. */
function expectedResult({ prompt, sampling }: GenerateRequest, alpha: number): { ids: number[]; logprobs: number[] } {
  const ids = [...prompt]
  const logprobs: number[] = []
  while (logprobs.length < sampling.maxTokens && ids.at(-1) !== END) {
    const sampled = sample(logitsAfter(ids, alpha), sampling, uniform(sampling.seed, logprobs.length), 0)
    ids.push(sampled.id)
    logprobs.push(sampled.logprob)
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
    assert.equal(result.reason, null, 'no event follows the end')
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
    assert.ok(steps < 5000, 'the batch does not become idle')
    collect(await batcher.step(), results)
  }
  return results
}

const settings = { prefillBusy: 8, prefillIdle: 16 }
const prompt = (seed: number, length: number) => Array.from({ length }, (_, i) => Math.floor(uniform(seed, i) * 60))

test('forty requests on three adapters, four rows and two slots give the results of separate runs', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [END], settings)
  for (const alpha of [1, 2, 3]) batcher.adapters.load(`a${alpha}`, lora(alpha))
  const requests = Array.from({ length: 40 }, (_, i) =>
    request(prompt(i, 1 + ((i * 7) % 50)), i, { adapter: i % 4 === 0 ? null : `a${i % 4}` }, 1 + ((i * 5) % 17)),
  )
  const results = new Map<number, Result>()
  for (const [i, each] of requests.entries()) {
    batcher.submit(i, generate(each))
    if (i % 3 === 0) collect(await batcher.step(), results)
  }
  await drain(batcher, results)
  assert.equal(results.size, 40)
  for (const [i, each] of requests.entries()) {
    const expected = expectedResult(each, i % 4)
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
    'a step had rows of the base model and of two adapters',
  )
  for (const step of decoder.steps) {
    assert.equal(new Set(step.map((row) => row.row)).size, step.length)
    assert.ok(step.length * Math.max(...step.map((row) => row.ids.length)) <= settings.prefillIdle)
  }
})

test('a long prompt is prefilled in chunks while another row samples one token per step', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [], settings)
  batcher.submit(0, generate(request([1], 1, {}, 40)))
  collect(await batcher.step(), new Map())
  batcher.submit(1, generate(request(prompt(5, 80), 2, {}, 3)))
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

test('a prompt that continues a finished completion reuses its cache; with another adapter it does not', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [], settings)
  batcher.adapters.load('a1', lora(1))
  const first = request(prompt(1, 10), 1, { adapter: 'a1' }, 5)
  batcher.submit(0, generate(first))
  const { ids } = (await drain(batcher)).get(0)!
  const before = decoder.steps.length
  const second = request([...first.prompt, ...ids, 7, 8, 9], 2, { adapter: 'a1' }, 4)
  batcher.submit(1, generate(second))
  assert.deepEqual((await drain(batcher)).get(1)!.ids, expectedResult(second, 1).ids)
  // The last sampled id was not processed, so 14 of 18 ids are in the cache.
  assert.deepEqual([decoder.steps[before]![0]!.keep, decoder.steps[before]![0]!.ids.length], [14, 4])
  const third = { ...second, adapter: null }
  const from = decoder.steps.length
  batcher.submit(2, generate(third))
  assert.deepEqual((await drain(batcher)).get(2)!.ids, expectedResult(third, 0).ids)
  assert.equal(decoder.steps[from]![0]!.keep, 0)
})

test('for a repeated prompt only the last id is processed again', async () => {
  const decoder = new FakeDecoder()
  const batcher = new Batcher(decoder, BYTES, [], settings)
  const same = request(prompt(3, 12), 9, {}, 3)
  batcher.submit(0, generate(same))
  const first = (await drain(batcher)).get(0)!
  const from = decoder.steps.length
  batcher.submit(1, generate(same))
  assert.deepEqual((await drain(batcher)).get(1)!.ids, first.ids)
  assert.deepEqual([decoder.steps[from]![0]!.keep, decoder.steps[from]![0]!.ids.length], [11, 1])
})

test('a slot in use is not reassigned: of three adapters the third waits for one of two slots', async () => {
  const decoder = new FakeDecoder(4, 2)
  const batcher = new Batcher(decoder, BYTES, [], settings)
  for (const alpha of [1, 2, 3]) batcher.adapters.load(`a${alpha}`, lora(alpha))
  const requests = [1, 2, 3].map((alpha) => request([alpha], alpha, { adapter: `a${alpha}` }, 4 + alpha))
  for (const [i, each] of requests.entries()) batcher.submit(i, generate(each))
  const results = new Map<number, Result>()
  for (let i = 0; i < 4; i++) collect(await batcher.step(), results)
  assert.deepEqual(decoder.installed, [1, 2])
  await drain(batcher, results)
  assert.deepEqual(decoder.installed, [1, 2, 3])
  for (const [i, each] of requests.entries()) assert.deepEqual(results.get(i)!.ids, expectedResult(each, i + 1).ids)
})

test('queued and running requests still use an adapter after it is unloaded; new requests fail', async () => {
  const batcher = new Batcher(new FakeDecoder(1, 1), BYTES, [], settings)
  batcher.adapters.load('a1', lora(1))
  const running = request([5], 1, { adapter: 'a1' }, 6)
  batcher.submit(0, generate(running))
  batcher.submit(1, generate(running))
  const results = new Map<number, Result>()
  collect(await batcher.step(), results)
  batcher.adapters.unload('a1')
  batcher.submit(2, generate(running))
  await drain(batcher, results)
  assert.deepEqual(results.get(0)!.ids, expectedResult(running, 1).ids)
  assert.deepEqual(results.get(1)!.ids, expectedResult(running, 1).ids)
  assert.equal(results.get(2)!.error, 'unknown_adapter')
})

test('an aborted request, queued, running or in the middle of a step, emits no event; its row is reused', async () => {
  const decoder = new FakeDecoder(1, 1)
  const batcher = new Batcher(decoder, BYTES, [], settings)
  batcher.adapters.load('a1', lora(1))
  const long = request(prompt(2, 60), 1, { adapter: 'a1' }, 9)
  const last = request(prompt(2, 30), 4, {}, 6)
  for (const key of [0, 1, 2]) batcher.submit(key, generate(long))
  batcher.submit(3, generate(last))
  await batcher.step()
  batcher.abort(2)
  batcher.abort(0)
  decoder.during = () => batcher.abort(1)
  const events = await batcher.step()
  decoder.during = null
  assert.deepEqual(events, [])
  const results = await drain(batcher)
  assert.deepEqual([...results.keys()], [3])
  assert.deepEqual(results.get(3)!.ids, expectedResult(last, 0).ids)
})

test('a completion ends at the context length and at maxTokens', async () => {
  const batcher = new Batcher(new FakeDecoder(2, 1, 20), BYTES, [], settings)
  batcher.submit(0, generate(request(prompt(1, 15), 1, {}, 100)))
  batcher.submit(1, generate(request(prompt(1, 15), 1, {}, 2)))
  const results = await drain(batcher)
  assert.deepEqual([results.get(0)!.ids.length, results.get(0)!.reason], [5, 'length'])
  assert.deepEqual([results.get(1)!.ids.length, results.get(1)!.reason], [2, 'length'])
})

test('a stop string ends the completion and is not part of its text; its tokens are reported', async () => {
  const plain = request([3], 8, {}, 10)
  const { ids } = expectedResult(plain, 0)
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

test('scores are the log-probabilities of the completion, in a batch with running generations', async () => {
  const batcher = new Batcher(new FakeDecoder(), BYTES, [END], settings)
  batcher.adapters.load('a2', lora(2))
  const [scored, completion] = [prompt(4, 21), prompt(6, 33)]
  batcher.submit(0, generate(request(prompt(1, 40), 3, {}, 30)))
  batcher.submit(1, { kind: 'score', prompt: scored, completion, adapter: 'a2', temperature: 0.7 } as const)
  const expected = completion.map((id, i) =>
    Math.fround(logprobOf(logitsAfter([...scored, ...completion.slice(0, i)], 2), id, 0.7)),
  )
  assert.deepEqual([...(await drain(batcher)).get(1)!.score!], expected)
})

test('an error of the decoder fails the requests in that step only', async () => {
  const decoder = new FakeDecoder(2, 1)
  const batcher = new Batcher(decoder, BYTES, [], settings)
  decoder.fault = new InstarError('internal', 'out of memory')
  batcher.submit(0, generate(request([1, 2, 3], 1)))
  batcher.submit(1, generate(request([1, 2], 1)))
  const results = await drain(batcher)
  assert.deepEqual([results.get(0)!.error, results.get(1)!.error], ['internal', 'internal'])
  decoder.fault = null
  const next = request([1, 2, 3], 1)
  batcher.submit(2, generate(next))
  assert.deepEqual((await drain(batcher)).get(2)!.ids, expectedResult(next, 0).ids)
})
