import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import * as tf from './tensors.ts'
import { uniform } from './random.ts'
import { createWasmBackend } from './runtime/wasm.ts'

/** The random inputs are at least 0.05 away from points where an operation is not differentiable. */
type Case = { of: string; shapes: number[][]; op: (...inputs: tf.Tensor[]) => tf.Tensor }

const ids = (values: number[]): tf.Tensor1D => tf.tensor1d(values, 'int32')
const matrices = (name: string, a: number[], b: number[], transposeA: boolean, transposeB: boolean): Case => ({
  of: `matMul ${name}`,
  shapes: [a, b],
  op: (x, y) => tf.matMul(x!, y!, transposeA, transposeB),
})

const CASES: Case[] = [
  {
    of: 'add',
    shapes: [
      [2, 3],
      [2, 3],
    ],
    op: (a, b) => tf.add(a!, b!),
  },
  { of: 'add with a repeated row', shapes: [[2, 3], [3]], op: (a, b) => tf.add(a!, b!) },
  {
    of: 'add with repeated columns',
    shapes: [
      [2, 1],
      [2, 3],
    ],
    op: (a, b) => tf.add(a!, b!),
  },
  {
    of: 'sub with a repeated row',
    shapes: [
      [1, 3],
      [2, 3],
    ],
    op: (a, b) => tf.sub(a!, b!),
  },
  { of: 'sub of a scalar', shapes: [[2, 3], []], op: (a, b) => tf.sub(a!, b!) },
  {
    of: 'mul',
    shapes: [
      [2, 3],
      [2, 3],
    ],
    op: (a, b) => tf.mul(a!, b!),
  },
  {
    of: 'mul by repeated columns',
    shapes: [
      [2, 3],
      [2, 1],
    ],
    op: (a, b) => tf.mul(a!, b!),
  },
  { of: 'mul by itself', shapes: [[2, 3]], op: (a) => tf.mul(a!, a!) },
  {
    of: 'minimum',
    shapes: [
      [3, 4],
      [3, 4],
    ],
    op: (a, b) => tf.minimum(a!, b!),
  },
  { of: 'neg', shapes: [[2, 3]], op: (a) => tf.neg(a!) },
  { of: 'exp', shapes: [[2, 3]], op: (a) => tf.exp(a!) },
  { of: 'log', shapes: [[2, 3]], op: (a) => tf.log(tf.add(tf.mul(a!, a!), tf.scalar(0.5))) },
  { of: 'clipByValue', shapes: [[4, 5]], op: (a) => tf.clipByValue(a!, -0.4, 0.6) },
  { of: 'sum of everything', shapes: [[2, 3]], op: (a) => tf.sum(a!) },
  { of: 'sum over the first axis', shapes: [[2, 3]], op: (a) => tf.sum(a!, 0) },
  { of: 'sum over the last axis, kept', shapes: [[2, 3]], op: (a) => tf.sum(a!, -1, true) },
  { of: 'softmax', shapes: [[2, 5]], op: (a) => tf.softmax(a!) },
  { of: 'logSoftmax', shapes: [[2, 5]], op: (a) => tf.logSoftmax(a!) },
  matrices('a b', [2, 3, 4], [2, 4, 5], false, false),
  matrices('a bᵀ', [2, 3, 4], [2, 5, 4], false, true),
  matrices('aᵀ b', [2, 4, 3], [2, 4, 5], true, false),
  matrices('aᵀ bᵀ', [2, 4, 3], [2, 5, 4], true, true),
  { of: 'reshape', shapes: [[2, 6]], op: (a) => tf.reshape(a!, [3, 4]) },
  { of: 'transpose', shapes: [[2, 3, 4, 2]], op: (a) => tf.transpose(a!, [2, 0, 3, 1]) },
  {
    of: 'concat along the last axis',
    shapes: [
      [2, 3],
      [2, 2],
    ],
    op: (a, b) => tf.concat([a!, b!], -1),
  },
  {
    of: 'concat along the first axis',
    shapes: [
      [1, 3],
      [2, 3],
    ],
    op: (a, b) => tf.concat([a!, b!], 0),
  },
  { of: 'split', shapes: [[2, 5]], op: (a) => tf.concat(tf.split(a!, [2, 3], -1).toReversed(), -1) },
  { of: 'gather with a row taken twice', shapes: [[4, 3]], op: (a) => tf.gather(a!, ids([2, 0, 2])) },
]

const next = uniform(11)
/** Random values, away from 0, from the limits of clipByValue and from the other input of minimum. */
const values = (shape: number[], input: number): Float32Array =>
  Float32Array.from({ length: tf.util.sizeFromShape(shape) }, () => {
    const drawn = Math.round((2 * next() - 1) * 8) / 8 + 0.06 * (input + 1)
    return Math.abs(drawn) < 0.05 ? 0.3 : drawn
  })

before(async () => {
  await createWasmBackend()
  await tf.setBackend('wasm')
})

for (const { of, shapes, op } of CASES) {
  test(`the gradient of ${of} matches finite differences`, () => {
    const inputs = shapes.map(values)
    const tensors = (): tf.Tensor[] => inputs.map((data, input) => tf.tensor(data, shapes[input]!))
    const weights = values(
      tf.tidy(() => op(...tensors()).shape),
      1,
    )
    const loss = (...operands: tf.Tensor[]): tf.Scalar => {
      const result = op(...operands)
      return tf.sum(tf.mul(result, tf.tensor(weights, result.shape)))
    }
    const value = (): number => tf.tidy(() => loss(...tensors()).dataSync()[0]!)
    const gradients = tf
      .grads(loss)(tensors())
      .map((gradient) => ({ shape: gradient.shape, data: gradient.dataSync() }))
    inputs.forEach((data, input) => {
      assert.deepEqual(gradients[input]!.shape, shapes[input])
      for (let at = 0; at < data.length; at++) {
        const original = data[at]!
        const step = 0.01
        data[at] = original + step
        const above = value()
        data[at] = original - step
        const below = value()
        data[at] = original
        const expected = (above - below) / (2 * step)
        const found = gradients[input]!.data[at]!
        assert.ok(
          Math.abs(found - expected) < 2e-3 * Math.max(1, Math.abs(expected)),
          `input ${input}[${at}]: ${found}, expected ${expected}`,
        )
      }
    })
  })
}

test('for equal inputs, minimum passes the gradient to the first input only', () => {
  const [a, b] = tf.grads((x: tf.Tensor, y: tf.Tensor) => tf.sum(tf.minimum(x, y)))([
    tf.tensor1d([1, 2]),
    tf.tensor1d([1, 3]),
  ])
  assert.deepEqual(
    [[...a!.dataSync()], [...b!.dataSync()]],
    [
      [1, 1],
      [0, 0],
    ],
  )
})

test('clipByValue passes the gradient of values that equal a limit', () => {
  const gradient = tf.grad((x) => tf.sum(tf.clipByValue(x, -1, 1)))(tf.tensor1d([-1, 1, 1.5, -2]))
  assert.deepEqual([...gradient.dataSync()], [1, 1, 0, 0])
})

test('the error for an operation without a gradient names the operation', () => {
  assert.throws(() => tf.grad((x) => tf.sum(tf.sin(x)))(tf.tensor1d([1])), /gradient function not found for Sin/)
  assert.throws(() => tf.grad((x) => tf.sum(tf.gather(x, ids([0]), 1)))(tf.ones([2, 2])), /not axis 1/)
})
