import { before, test } from 'node:test'
import assert from 'node:assert/strict'
import * as tf from './tensors.ts'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'
import { hybridLoss } from './loss.ts'
import { uniform } from './random.ts'
import { bytesPerToken, contrastedTeacher, joined, MIN_TAIL, referenceOf } from './references.ts'
import { createRuntime } from './runtime/runtime.ts'
import { createWasmBackend } from './runtime/wasm.ts'
import { Trainer } from './step.ts'
import { pickEach } from './training.ts'

const next = uniform(19)
const V = 30
const logitsOf = (rows: number, spread: number): number[] => Array.from({ length: rows * V }, () => spread * next())

/** In double precision and apart from the program: log softmax of each row. */
const logSoftmax = (logits: readonly number[]): number[] =>
  logits.map((value, at) => {
    const row = logits.slice(at - (at % V), at - (at % V) + V)
    return value - Math.log(row.reduce((sum, one) => sum + Math.exp(one), 0))
  })
/** Σ p log(p/q) over the buckets of each token of one row: an id of its own, or the tail. */
const bucketKl = (p: readonly number[], q: readonly number[], kept: ReadonlySet<number>): number => {
  const sums = new Map<number, [number, number]>()
  p.forEach((value, v) => {
    const [a, b] = sums.get(kept.has(v) ? v : -1) ?? [0, 0]
    sums.set(kept.has(v) ? v : -1, [a + Math.exp(value), b + Math.exp(q[v]!)])
  })
  return [...sums.values()].reduce((sum, [a, b]) => sum + a * Math.log(a / b), 0)
}
const everyId = new Set(Array.from({ length: V }, (_, v) => v))

before(async () => {
  await createWasmBackend()
  await tf.setBackend('wasm')
})

test('a reference keeps the most likely tokens in the order of their ids, of equal ones the first, and the rest as one', () => {
  const probabilities = [0.1, 0.2, 0.05, 0.2, 0.1, 0.1, 0.25, 0]
  const rows = Float32Array.from([...probabilities, ...probabilities.toReversed()], (p) => Math.log(Math.max(p, 1e-9)))
  const { ids, logp } = referenceOf(rows, 8, 4)
  assert.deepEqual([...ids!], [0, 1, 3, 6, 1, 2, 4, 6])
  const expected = [0.1, 0.2, 0.2, 0.25, 0.25, 0.25, 0.1, 0.2, 0.2, 0.25]
  logp.forEach((value, at) => {
    assert.ok(Math.abs(Math.exp(value) - expected[at]!) < 1e-6, `${at}: ${Math.exp(value)}`)
  })
  const sure = referenceOf(Float32Array.from([0, -40, -40]), 3, 1)
  assert.equal(sure.logp[1], Math.fround(Math.log(MIN_TAIL)))
  for (const topK of [0, 8, 9]) assert.deepEqual(referenceOf(rows, 8, topK), { ids: null, logp: rows })
  assert.deepEqual([bytesPerToken(4, 8), bytesPerToken(0, 8), bytesPerToken(8, 8)], [36, 32, 32])
  const two = referenceOf(rows.subarray(8), 8, 4)
  assert.deepEqual(joined([referenceOf(rows.subarray(0, 8), 8, 4), two]), { ids, logp })
})

test('KL and gradient over topK + 1 buckets equal those of plain double precision, and are at most the whole KL', () => {
  const [R, k] = [6, 5]
  const student = logitsOf(R, 6)
  const reference = Float32Array.from(logSoftmax(logitsOf(R, 6)))
  const weight = Array.from({ length: R }, (_, at) => 0.1 + 0.2 * at)
  const { ids, logp } = referenceOf(reference, V, k)
  const places = tf.tensor2d(
    ids!.map((id, at) => Math.floor(at / k) * V + id),
    [R, k],
    'int32',
  )
  const none = { logp_N: tf.tensor1d([0]), old_N: tf.tensor1d([0]), advantage_N: tf.tensor1d([0]) }
  const loss = (logits: tf.Tensor): tf.Scalar => {
    const logp_RV = tf.logSoftmax(logits) as tf.Tensor2D
    const row = { reference_Rk1: tf.tensor2d(logp, [R, k + 1]), weight_R: tf.tensor1d(weight) }
    const part = { reduced: true as const, student_Rk: pickEach(logp_RV, places), ...row }
    const nothing = { ...part, weight_R: tf.zeros([R]) as tf.Tensor1D }
    const policy = { ...none, weight_N: tf.tensor1d([0]), clipLow: 0.2, clipHigh: 0.2 }
    return hybridLoss({ ...policy, opdForward: 0, opd: nothing, kl: part }).kl
  }
  const { value, grad } = tf.valueAndGrad(loss)(tf.tensor2d(student, [R, V]))
  const oracle = (logits: readonly number[], whole = false): number => {
    const p = logSoftmax(logits)
    return weight.reduce((sum, one, row) => {
      const part = <T>(values: ArrayLike<T>): T[] => Array.from(values).slice(row * V, (row + 1) * V)
      const kept = whole ? everyId : new Set(ids!.slice(row * k, (row + 1) * k))
      return sum + one * bucketKl(part(p), part(reference), kept)
    }, 0)
  }
  const found = value.dataSync()[0]!
  assert.ok(Math.abs(found - oracle(student)) < 2e-6, `${found}, plain ${oracle(student)}`)
  assert.ok(found < oracle(student, true) && found > 0)
  const gradient = grad.dataSync()
  student.forEach((logit, at) => {
    const moved = (by: number): number => oracle(student.with(at, logit + by))
    const slope = (8 * (moved(1e-3) - moved(-1e-3)) - (moved(2e-3) - moved(-2e-3))) / 12e-3
    assert.ok(Math.abs(gradient[at]! - slope) < 2e-6, `${at}: ${gradient[at]}, plain ${slope}`)
  })
})

test('the gradient of the forward KL by a logit is p − p_teacher, whole and over buckets, and that of the reverse KL vanishes with p', () => {
  // Token 0 is what the teacher wants and the policy hardly samples; the last logit is the policy's habit.
  const student = [-6, ...Array.from({ length: V - 2 }, (_, at) => -2 - 0.1 * at), 2]
  const teacher = [3, ...Array.from({ length: V - 2 }, (_, at) => -2 - 0.1 * at), 1]
  const [p, q] = [logSoftmax(student).map(Math.exp), logSoftmax(teacher)]
  const reference = Float32Array.from(q)
  const policy = {
    logp_N: tf.tensor1d([0]),
    old_N: tf.tensor1d([0]),
    advantage_N: tf.tensor1d([0]),
    weight_N: tf.tensor1d([0]),
    clipLow: 0.2,
    clipHigh: 0.2,
  }
  const nothing = { reduced: false as const, student_RV: tf.zeros([1, V]), reference_RV: tf.zeros([1, V]) }
  const gradientOf = (opdForward: number, k: number) => {
    const { ids, logp } = referenceOf(reference, V, k)
    const weight_R = tf.tensor1d([1])
    return tf.valueAndGrad((logits: tf.Tensor): tf.Scalar => {
      const student_RV = tf.logSoftmax(logits) as tf.Tensor2D
      const opd = ids
        ? {
            reduced: true as const,
            student_Rk: pickEach(student_RV, tf.tensor2d([...ids], [1, k], 'int32')),
            reference_Rk1: tf.tensor2d(logp, [1, k + 1]),
            weight_R,
          }
        : { reduced: false as const, student_RV, reference_RV: tf.tensor2d(reference, [1, V]), weight_R }
      const kl = { ...nothing, student_RV, reference_RV: student_RV, weight_R: tf.zeros([1]) as tf.Tensor1D }
      return hybridLoss({ ...policy, opdForward, opd, kl }).opd
    })(tf.tensor2d(student, [1, V]))
  }
  const whole = gradientOf(1, 0)
  const kl = q.reduce((sum, log, v) => sum + Math.exp(log) * (log - Math.log(p[v]!)), 0)
  assert.ok(Math.abs(whole.value.dataSync()[0]! - kl) < 1e-5, `${whole.value.dataSync()[0]}, plain ${kl}`)
  whole.grad.dataSync().forEach((slope, v) => {
    assert.ok(Math.abs(slope - (p[v]! - Math.exp(q[v]!))) < 1e-6, `${v}: ${slope}`)
  })
  const buckets = gradientOf(1, 5)
  assert.ok(buckets.value.dataSync()[0]! <= kl + 1e-6)
  const kept = referenceOf(reference, V, 5).ids!
  for (const v of kept) assert.ok(Math.abs(buckets.grad.dataSync()[v]! - (p[v]! - Math.exp(q[v]!))) < 1e-6, `${v}`)
  const reverse = gradientOf(0, 0).grad.dataSync()[0]!
  assert.ok(whole.grad.dataSync()[0]! < -0.8 && reverse > -0.01, `${whole.grad.dataSync()[0]} and ${reverse}`)
  const half = gradientOf(0.5, 0)
  assert.ok(Math.abs(half.grad.dataSync()[0]! - (whole.grad.dataSync()[0]! + reverse) / 2) < 1e-6)
})

test('a contrasted teacher is the softmax of base + contrast · (hinted − base) in plain double precision; at 1 it is the hinted base', () => {
  const [R, contrast] = [4, 3]
  const [base, hinted] = [logSoftmax(logitsOf(R, 6)), logSoftmax(logitsOf(R, 6))]
  const rows = Float32Array.from(hinted)
  const plain = logSoftmax(base.map((value, at) => value + contrast * (hinted[at]! - value)))
  contrastedTeacher(rows, Float32Array.from(base), V, contrast).forEach((value, at) => {
    assert.ok(Math.abs(value - plain[at]!) < 1e-5, `${at}: ${value}, plain ${plain[at]}`)
  })
  assert.deepEqual(rows, Float32Array.from(hinted))
  assert.equal(contrastedTeacher(rows, Float32Array.from(base), V, 1), rows)
})

test('an update with references of as many tokens as the vocabulary has is that with whole ones; with fewer it has less KL', async () => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'onnx',
    threads: 1,
  })
  const trainer = new Trainer(runtime, 'example')
  const items = await exampleItems(runtime)
  const none = { adapter: null, state: null }
  const whole = await trainer.step(items, exampleSettings, none)
  const every = await trainer.step(items, { ...exampleSettings, referenceTopK: config.vocabulary }, none)
  assert.equal(every.adapter.sha256, whole.adapter.sha256)
  const one = await trainer.step(items, { ...exampleSettings, referenceTopK: 20 }, none)
  const [kl, reduced] = [whole.figures.klLoss, one.figures.klLoss]
  assert.ok(reduced > 0 && reduced < kl, `${reduced} of ${kl}`)
  const again = await trainer.step(items, { ...exampleSettings, referenceTopK: 20 }, none)
  assert.equal(one.adapter.sha256, again.adapter.sha256)
  assert.notEqual(one.adapter.sha256, whole.adapter.sha256)
  await runtime.close()
})

test('references of exactly referenceBytes are kept; of one byte more they are computed in each epoch, to the same loss', async () => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'onnx',
    threads: 1,
  })
  let passes = 0
  const counted = {
    ...runtime,
    decodeStep: (request: Parameters<typeof runtime.decodeStep>[0]) => {
      passes++
      return runtime.decodeStep(request)
    },
  }
  const trainer = new Trainer(counted, 'example')
  const items = await exampleItems(runtime)
  const tokens = items.reduce((sum, item) => sum + item.completion.length * (item.hintPrompt ? 2 : 1), 0)
  for (const [referenceTopK, opdContrast] of [
    [0, 1],
    [10, 1],
    [0, 2],
    [10, 2],
  ] as const) {
    const step = async (referenceBytes: number): Promise<{ passes: number; loss: number }> => {
      passes = 0
      const { figures } = await trainer.step(
        items,
        { ...exampleSettings, referenceTopK, referenceBytes, opdContrast },
        { adapter: null, state: null },
      )
      return { passes, loss: figures.loss }
    }
    const limit = tokens * bytesPerToken(referenceTopK, config.vocabulary)
    const kept = await step(limit)
    const computed = await step(limit - 1)
    assert.ok(computed.passes >= kept.passes + exampleSettings.epochs, `${computed.passes} passes, ${kept.passes}`)
    assert.ok(Math.abs(kept.loss - computed.loss) < 1e-5)
    assert.deepEqual(await step(limit), kept)
  }
  await runtime.close()
})
