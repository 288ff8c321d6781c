import { test } from 'node:test'
import assert from 'node:assert/strict'
import * as tf from '../tensors.ts'
import { createRuntime } from './runtime.ts'
import type { Runtime } from './runtime.ts'
import { initialWeights } from '../initial.ts'
import { normal, uniform } from '../random.ts'
import { PROJECTIONS, projectionPath, projectionShape, weightsFrom } from '../weights.ts'
import type { ModelConfig } from '../weights.ts'
import type { Lora } from '../checkpoints/peft.ts'

const config: ModelConfig = {
  hiddenSize: 24,
  intermediateSize: 40,
  layers: 3,
  heads: 6,
  kvHeads: 2,
  headDim: 8,
  vocabulary: 50,
  contextLength: 200,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: true,
  attentionBias: true,
  tiedHead: true,
}
const weights = weightsFrom(initialWeights(config, 4))

function randomLora(seed: number, rank: number, alpha: number): Lora {
  const next = normal(seed)
  const modules = new Map<string, Lora['modules'] extends ReadonlyMap<string, infer M> ? M : never>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const projection of PROJECTIONS) {
      const [out, inner] = projectionShape(config, projection)
      const fill = (rows: number, columns: number) => ({
        shape: [rows, columns],
        data: Float32Array.from({ length: rows * columns }, () => 0.2 * next()),
      })
      modules.set(`model.layers.${layer}.${projectionPath(projection)}`, { a: fill(rank, inner), b: fill(out, rank) })
    }
  }
  return { rank, alpha, modules }
}

const tokens = (seed: number, count: number): Int32Array => {
  const next = uniform(seed)
  return Int32Array.from({ length: count }, () => Math.floor(next() * config.vocabulary))
}

async function open(engine: 'onnx' | 'wasm'): Promise<Runtime> {
  return createRuntime({ config, weights, base: 'test', engine, threads: 1 })
}

/** Logits of every position, computed in one step. */
async function allLogits(runtime: Runtime, ids: Int32Array, slot: number | null): Promise<Float32Array> {
  return (
    await runtime.decodeStep({ ids, T: ids.length, cache: runtime.createCache(1), rowSlots: [slot], logits: 'all' })
  ).logits
}

function maxDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  assert.equal(a.length, b.length)
  let out = 0
  for (let i = 0; i < a.length; i++) out = Math.max(out, Math.abs((a[i] as number) - (b[i] as number)))
  return out
}

for (const engine of ['onnx', 'wasm'] as const) {
  test(`${engine}: decoding with a cache in chunks of any size gives the logits of the allLogits sequence`, async () => {
    const runtime = await open(engine)
    const ids = tokens(1, 150)
    const expected = await allLogits(runtime, ids, null)
    const cache = runtime.createCache(1)
    let at = 0
    for (const T of [1, 40, 1, 1, 60, 3, 44]) {
      const { logits } = await runtime.decodeStep({
        ids: ids.slice(at, at + T),
        T,
        cache,
        rowSlots: [null],
        logits: 'all',
      })
      assert.ok(
        maxDifference(logits, expected.subarray(at * config.vocabulary, (at + T) * config.vocabulary)) < 2e-5,
        `${at}+${T}`,
      )
      at += T
    }
    assert.equal(cache.lengths[0], 150)
    await runtime.close()
  })

  test(`${engine}: rows that join and leave a batch with three adapters have the logits of separate runs`, async () => {
    const runtime = await open(engine)
    runtime.setAdapterSlot(0, randomLora(11, 4, 8))
    runtime.setAdapterSlot(1, randomLora(12, 2, 4))
    runtime.setAdapterSlot(2, randomLora(13, 4, 2))
    const slots = [0, 2, null, 1, 0]
    const rows = slots.map((slot, row) => ({ slot, ids: tokens(20 + row, 30 + row * 17) }))
    const alone = await Promise.all(rows.map(({ slot, ids }) => allLogits(runtime, ids, slot)))
    assert.ok(
      maxDifference(alone[0] as Float32Array, await allLogits(runtime, (rows[0] as { ids: Int32Array }).ids, null)) >
        1e-2,
      'an adapter changes the logits',
    )
    const V = config.vocabulary
    // Two rows are prefilled together (padded on the right), the others separately; then all are decoded in one batch.
    const prefix = [9, 21, 50, 33, 5]
    const cache = runtime.createCache(2)
    const T = 21
    const padded = new Int32Array(2 * T)
    for (const row of [0, 1]) padded.set((rows[row] as { ids: Int32Array }).ids.subarray(0, prefix[row]), row * T)
    await runtime.decodeStep({ ids: padded, T, cache, rowSlots: [0, 2], counts: [9, 21] })
    for (const row of [2, 3, 4]) {
      const single = runtime.createCache(1)
      const { slot, ids } = rows[row] as { slot: number | null; ids: Int32Array }
      const { logits } = await runtime.decodeStep({
        ids: ids.slice(0, prefix[row]),
        T: prefix[row] as number,
        cache: single,
        rowSlots: [slot],
      })
      assert.ok(
        maxDifference(
          logits,
          (alone[row] as Float32Array).subarray(((prefix[row] as number) - 1) * V, (prefix[row] as number) * V),
        ) < 1e-4,
      )
      cache.append(single)
    }
    let running = [0, 1, 2, 3, 4]
    for (let step = 0; running.length > 0; step++) {
      const places = running.map((row) => (prefix[row] as number) + step)
      const { logits } = await runtime.decodeStep({
        ids: Int32Array.from(
          running,
          (row, i) => (rows[row] as { ids: Int32Array }).ids[places[i] as number] as number,
        ),
        T: 1,
        cache,
        rowSlots: running.map((row) => slots[row] as number | null),
      })
      running.forEach((row, i) => {
        const place = places[i] as number
        const difference = maxDifference(
          logits.subarray(i * V, (i + 1) * V),
          (alone[row] as Float32Array).subarray(place * V, (place + 1) * V),
        )
        assert.ok(difference <= 1e-4, `row ${row} at ${place}: ${difference}`)
      })
      const stay = running
        .map((_, i) => i)
        .filter((i) => (places[i] as number) + 1 < (rows[running[i] as number] as { ids: Int32Array }).ids.length)
      if (stay.length < running.length) cache.keep(step % 2 === 0 ? stay : [...stay].reverse())
      running = (step % 2 === 0 || stay.length === running.length ? stay : [...stay].reverse()).map(
        (i) => running[i] as number,
      )
    }
    assert.equal(cache.rows, 0)
    await runtime.close()
  })
}

test('the logits of onnx and wasm differ by less than 2e-5', async () => {
  const onnx = await open('onnx')
  const wasm = await open('wasm')
  const lora = randomLora(31, 4, 8)
  for (const runtime of [onnx, wasm]) runtime.setAdapterSlot(0, lora)
  const ids = tokens(2, 80)
  for (const slot of [null, 0])
    assert.ok(maxDifference(await allLogits(onnx, ids, slot), await allLogits(wasm, ids, slot)) < 2e-5)
  assert.match(onnx.choice, /^engine onnx \(onnxruntime-node 1\.\d+\.\d+.*1 thread\): as configured$/)
  await onnx.close()
  await wasm.close()
})

test('wasm: decoding leaks no tensors', async () => {
  const runtime = await open('wasm')
  const cache = runtime.createCache(1)
  const step = (): Promise<unknown> => runtime.decodeStep({ ids: tokens(3, 5), T: 5, cache, rowSlots: [null] })
  await step()
  const before = tf.memory().numTensors
  for (let i = 0; i < 10; i++) await step()
  assert.equal(tf.memory().numTensors, before)
  await runtime.close()
  assert.ok(tf.memory().numTensors < before)
})

test('a copied and rewound cache continues from a shared prefix like a new one', async () => {
  const runtime = await open('onnx')
  const shared = tokens(5, 70)
  const cache = runtime.createCache(1)
  await runtime.decodeStep({ ids: shared, T: 70, cache, rowSlots: [null] })
  const twice = cache.copy([0, 0])
  twice.rewind(1, 40)
  const other = tokens(6, 10)
  const { logits } = await runtime.decodeStep({
    ids: Int32Array.from([...other, ...other]),
    T: 10,
    cache: twice,
    rowSlots: [null, null],
  })
  for (const [row, length] of [
    [0, 70],
    [1, 40],
  ] as const) {
    const expected = await allLogits(runtime, Int32Array.from([...shared.subarray(0, length), ...other]), null)
    assert.ok(
      maxDifference(
        logits.subarray(row * config.vocabulary, (row + 1) * config.vocabulary),
        expected.subarray(-config.vocabulary),
      ) < 2e-5,
    )
  }
  assert.throws(() => {
    twice.rewind(1, 51)
  }, RangeError)
  await runtime.close()
})
