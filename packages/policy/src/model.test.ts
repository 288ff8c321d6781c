import { test } from 'node:test'
import assert from 'node:assert/strict'
import * as tf from './tensors.ts'
import { initialWeights } from './initial.ts'
import { MASKED, attendWithin, decode, head, ropeTable } from './model.ts'
import { frozenConstants, frozenParameters } from './parameters.ts'
import { causalMask } from './pretraining.ts'
import { openBackend } from './runtime/runtime.ts'
import type { Program } from './runtime/backend.ts'
import { weightsFrom } from './weights.ts'
import type { ModelConfig } from './weights.ts'

const config: ModelConfig = {
  hiddenSize: 16,
  intermediateSize: 24,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 6,
  vocabulary: 33,
  contextLength: 32,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: false,
  attentionBias: false,
  tiedHead: false,
}

const program: Program = {
  name: 'padded',
  inputs: [
    { name: 'ids', dtype: 'int32', shape: ['B', 'T'] },
    { name: 'cos', dtype: 'float32', shape: ['B', 1, 'T', config.headDim] },
    { name: 'sin', dtype: 'float32', shape: ['B', 1, 'T', config.headDim] },
    { name: 'causal', dtype: 'float32', shape: ['T', 'T'] },
    { name: 'keys', dtype: 'float32', shape: ['B', 'T'] },
  ],
  constants: frozenConstants(config, weightsFrom(initialWeights(config, 6))),
  build(input, constant) {
    const [B, T] = input('ids').shape as [number, number]
    const sequence = { config, B, T, cos: input('cos'), sin: input('sin') }
    const parameters = frozenParameters(config, constant)
    const hidden_ND = decode(input('ids'), sequence, parameters, attendWithin(sequence, input('causal'), input('keys')))
    return { logits: tf.reshape(head(hidden_ND, config, parameters), [B, T, config.vocabulary]) }
  },
}

for (const engine of ['onnx', 'wasm'] as const) {
  test(`${engine}: padding on the left or on the right does not change the logits of a row`, async () => {
    const { backend } = await openBackend(engine, 1)
    const compiled = await backend.compile(program)
    const table = ropeTable(config, config.contextLength)
    const row = [4, 9, 31, 2, 17]
    const run = async (T: number, lefts: readonly number[]): Promise<(place: number, row: number) => Float32Array> => {
      const B = lefts.length
      const ids = new Int32Array(B * T).fill(8)
      const keys = new Float32Array(B * T).fill(MASKED)
      const [cos, sin] = [new Float32Array(B * T * config.headDim), new Float32Array(B * T * config.headDim)]
      lefts.forEach((left, b) => {
        ids.set(row, b * T + left)
        keys.fill(0, b * T + left, b * T + left + row.length)
        for (const [all, own] of [
          [table.cos, cos],
          [table.sin, sin],
        ] as const)
          own.set(all.subarray(0, (T - left) * config.headDim), (b * T + left) * config.headDim)
      })
      const angles = [B, 1, T, config.headDim]
      const { logits } = await compiled.run({
        ids: { shape: [B, T], data: ids },
        cos: { shape: angles, data: cos },
        sin: { shape: angles, data: sin },
        causal: causalMask(T),
        keys: { shape: [B, T], data: keys },
      })
      const V = config.vocabulary
      return (place, b) =>
        (logits?.data ?? new Float32Array()).subarray(
          (b * T + (lefts[b] as number) + place) * V,
          (b * T + (lefts[b] as number) + place + 1) * V,
        )
    }
    const bare = await run(5, [0])
    const padded = await run(9, [0, 4, 2])
    for (let place = 0; place < row.length; place++) {
      for (const b of [0, 1, 2]) {
        const [a, c] = [bare(place, 0), padded(place, b)]
        assert.ok(
          a.every((value, v) => Math.abs(value - (c[v] as number)) < 1e-5),
          `place ${place}, row ${b}`,
        )
      }
    }
    await backend.dispose()
  })
}

test('tracing a program whose constant has a named dimension fails', async () => {
  const { backend } = await openBackend('onnx', 1)
  const wrong: Program = {
    ...program,
    name: 'wrong',
    inputs: [{ name: 'x', dtype: 'float32', shape: ['B'] }],
    build: (input) => ({ y: tf.add(input('x'), tf.range(0, input('x').size)) }),
  }
  await assert.rejects(backend.compile(wrong))
  const right: Program = {
    ...wrong,
    name: 'right',
    build: (input) => ({ y: tf.add(input('x'), tf.ones(input('x').shape)) }),
  }
  const compiled = await backend.compile(right)
  assert.deepEqual(
    [...((await compiled.run({ x: { shape: [3], data: Float32Array.of(1, 2, 3) } }))['y']?.data ?? [])],
    [2, 3, 4],
  )
  await backend.dispose()
})
