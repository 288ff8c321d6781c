/** Matrix products with weights in 4-bit blocks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as tf from '../tensors.ts'
import { dequantise, packQ4 } from '../checkpoints/gguf.ts'
import { f32ToF16 } from '../checkpoints/float16.ts'
import { uniform } from '../random.ts'
import type { PackedTensor } from '../weights.ts'
import type { Compiled, Program } from './backend.ts'
import { createOnnxBackend } from './onnx.ts'

const [N, K] = [21, 96]
const LARGEST = 65504

/** [scale, minimum] of unusual blocks: zero, negative, and the largest and smallest numbers of f16. */
const UNUSUAL: readonly [number, number][] = [
  [0, 0],
  [0, -3.5],
  [0.01, -0.08],
  [0.01, 0.5],
  [-0.02, 0.1],
  [LARGEST, -LARGEST],
  [2 ** -24, -(2 ** -24)],
  [1, LARGEST],
]

/** Q4_1 blocks of [N, K]: the unusual ones first, then random ones. */
function blocks(seed: number, unusual = UNUSUAL): Uint8Array {
  const next = uniform(seed)
  const bytes = new Uint8Array(((N * K) / 32) * 20)
  const view = new DataView(bytes.buffer)
  for (let block = 0; block * 20 < bytes.length; block++) {
    const [scale, minimum] = unusual[block] ?? [0.005 + 0.01 * next(), -0.15 * next()]
    view.setUint16(block * 20, f32ToF16(scale), true)
    view.setUint16(block * 20 + 2, f32ToF16(minimum), true)
    for (let i = 4; i < 20; i++) bytes[block * 20 + i] = Math.floor(next() * 256)
  }
  return bytes
}

/** A program for x [M, K] · Wᵀ on onnxruntime, which uses the blocks if M is 1. */
async function product(
  weights: Float32Array,
  packed: PackedTensor,
): Promise<{ compiled: Compiled; close: () => Promise<void> }> {
  const backend = await createOnnxBackend({ threads: 1, blocks: true })
  const program: Program = {
    name: 'product',
    inputs: [{ name: 'x', dtype: 'float32', shape: ['M', K] }],
    constants: new Map([['w', { shape: [N, K], data: weights }]]),
    packed: (name) => (name === 'w' ? packed : null),
    build: (input, constant) => ({
      y: tf.matMul(input('x') as tf.Tensor2D, constant('w') as tf.Tensor2D, false, true),
    }),
  }
  return { compiled: await backend.compile(program), close: () => backend.dispose() }
}

const inputs = (seed: number, M: number): Float32Array => {
  const next = uniform(seed)
  return Float32Array.from({ length: M * K }, () => 4 * next() - 2)
}

test('packed blocks have exactly the values of the file, for unusual scales as well', () => {
  const bytes = blocks(1)
  const { codes, scales, minima } = packQ4(bytes, [N, K])
  const values = Float32Array.from(
    { length: N * K },
    (_, i) => scales[i >> 5]! * ((codes[i >> 1]! >> (i % 2 === 0 ? 0 : 4)) & 15) + minima[i >> 5]!,
  )
  assert.deepEqual(values, dequantise('q4_1', bytes))
})

test('the product of one row with blocks is exact up to the rounding of float32', async () => {
  const bytes = blocks(2)
  const weights = dequantise('q4_1', bytes)
  const packed = packQ4(bytes, [N, K])
  const { compiled, close } = await product(weights, packed)
  let worst = 0
  for (let seed = 1; seed <= 20; seed++) {
    const x = inputs(seed, 1)
    const { y } = await compiled.run({ x: { shape: [1, K], data: x } })
    assert.deepEqual(y?.shape, [1, N])
    for (let n = 0; n < N; n++) {
      let exact = 0
      let size = 0
      for (let k = 0; k < K; k++) {
        exact += x[k]! * weights[n * K + k]!
        const block = (n * K + k) >> 5
        size +=
          Math.abs(x[k]!) *
          (8 * Math.abs(packed.scales[block]!) + Math.abs(packed.minima[block]! + 8 * packed.scales[block]!))
      }
      worst = Math.max(worst, Math.abs(y!.data[n]! - exact) / size)
    }
  }
  // The error bound of a float32 sum of 96 products is 96 · 2⁻²⁴ times the sum of their absolute values; measured: 1.
  assert.ok(worst < 8 * 2 ** -24, `off by ${worst * 2 ** 24} · 2⁻²⁴ of the terms`)
  await close()
})

test('a product of one row uses the blocks, of several rows the matrix', async () => {
  const matrix = dequantise('q4_1', blocks(3, []))
  const other = blocks(4, [])
  const { compiled, close } = await product(matrix, packQ4(other, [N, K]))
  for (const M of [1, 2, 40]) {
    const weights = M === 1 ? dequantise('q4_1', other) : matrix
    const x = inputs(5, M)
    const { y } = await compiled.run({ x: { shape: [M, K], data: x } })
    for (let m = 0; m < M; m++) {
      for (let n = 0; n < N; n++) {
        let exact = 0
        for (let k = 0; k < K; k++) exact += x[m * K + k]! * weights[n * K + k]!
        assert.ok(Math.abs(y!.data[m * N + n]! - exact) < 1e-5, `${M} rows: ${y!.data[m * N + n]} is not ${exact}`)
      }
    }
  }
  await close()
})
