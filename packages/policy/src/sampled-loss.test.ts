import { test } from 'node:test'
import assert from 'node:assert/strict'
import * as tf from './tensors.ts'
import './gradients.ts'
import { hybridLoss } from './loss.ts'
import { uniform } from './random.ts'
import { openBackend } from './runtime/runtime.ts'
import { sampledDivergences, sampledLoss, type SampledTurn } from './sampled-loss.ts'

const constants = { clipLow: 0.2, clipHigh: 0.28, logRatioMax: 2 }

/** Turns whose ratios lie on both sides of both clips, and whose log-ratios to base and teacher exceed the limit. */
function turns(): SampledTurn[] {
  const next = uniform(5)
  const around = (middle: number, width: number, count: number): number[] =>
    Array.from({ length: count }, () => middle + width * (next() - 0.5))
  return [7, 4, 9].map((count, at) => ({
    advantage: [0.8, -0.6, 0][at] ?? 0,
    weights: {
      policy: Float32Array.from(around(0.1, 0.1, count)),
      importance: Float32Array.from(around(1, 1, count)),
      opd: at === 1 ? 0.07 : 0,
      kl: 0.02,
    },
    old: around(-3, 1, count),
    now: around(-3, 1.5, count),
    base: around(-3, 8, count),
    teacher: at === 1 ? around(-3, 8, count) : null,
  }))
}

for (const opdContrast of [1, 3])
  test(`with a contrast of ${opdContrast} the gradient by each log-probability is that of finite differences of the loss`, () => {
    const batch = turns()
    const settings = { ...constants, opdContrast }
    const { gradients } = sampledLoss(batch, settings)
    const h = 1e-6
    batch.forEach((turn, i) => {
      for (let at = 0; at < turn.now.length; at++) {
        const moved = (by: number): number =>
          sampledLoss(
            batch.with(i, { ...turn, now: Array.from(turn.now, (lp, n) => (n === at ? lp + by : lp)) }),
            settings,
          ).loss
        const slope = (moved(h) - moved(-h)) / (2 * h)
        assert.ok(Math.abs(slope - (gradients[i]?.[at] as number)) < 1e-8, `turn ${i}, token ${at}`)
      }
    })
  })

test('the policy term and its gradient are those of loss.ts', async () => {
  const { backend } = await openBackend('wasm', 1)
  const batch = turns().map((turn) => ({ ...turn, base: null, teacher: null }))
  const mine = sampledLoss(batch, constants)
  const flat = (of: (turn: SampledTurn) => ArrayLike<number>): tf.Tensor1D =>
    tf.tensor1d(batch.flatMap((turn) => Array.from(of(turn))))
  const none = {
    reduced: false as const,
    student_RV: tf.zeros([1, 2]) as tf.Tensor2D,
    reference_RV: tf.zeros([1, 2]) as tf.Tensor2D,
    weight_R: tf.zeros([1]) as tf.Tensor1D,
  }
  const { value, grads } = tf.valueAndGrads(
    (logp: tf.Tensor) =>
      hybridLoss({
        logp_N: logp as tf.Tensor1D,
        old_N: flat(({ old }) => old),
        advantage_N: flat(({ advantage, now }) => Array.from(now, () => advantage)),
        weight_N: flat(({ weights }) => weights.policy),
        ...constants,
        opd: none,
        opdForward: 0,
        kl: none,
      }).loss,
  )([flat(({ now }) => now)])
  assert.ok(Math.abs((await value.data())[0]! - mine.loss) < 1e-6)
  const theirs = (await grads[0]?.data()) ?? []
  mine.gradients
    .flatMap((own) => Array.from(own))
    .forEach((own, at) => {
      assert.ok(Math.abs(own - (theirs[at] as number)) < 1e-6, `token ${at}: ${own}, ${theirs[at]}`)
    })
  assert.ok(mine.clipped > 0)
  await backend.dispose()
})

/** A distribution of six tokens, and log-probabilities of all of them under it and a reference. */
test('over all tokens, weighted by their probability, the gradient of a KL term is that of the reverse KL', () => {
  const softmax = (logits: number[]): number[] => {
    const total = Math.log(logits.reduce((sum, z) => sum + Math.exp(z), 0))
    return logits.map((z) => z - total)
  }
  const logits = [0.3, -0.4, 1.1, 0, -1, 0.6]
  const reference = softmax([0.1, 0.2, 0.9, -0.7, -0.2, 0.4])
  const kl = (z: number[]): number => softmax(z).reduce((sum, lp, v) => sum + Math.exp(lp) * (lp - reference[v]!), 0)
  const now = softmax(logits)
  const { gradients } = sampledLoss(
    [
      {
        advantage: 0,
        weights: {
          policy: new Float32Array(6),
          importance: Float32Array.from(now, Math.exp),
          opd: 0,
          kl: 1,
        },
        old: now,
        now,
        base: reference,
        teacher: null,
      },
    ],
    constants,
  )
  // d lp_v / d z_u = [u = v] − p_u.
  const total = gradients[0]!.reduce((sum, g) => sum + g, 0)
  logits.forEach((_, u) => {
    const mine = gradients[0]![u]! - Math.exp(now[u]!) * total
    const h = 1e-5
    const moved = (by: number): number => kl(logits.map((z, v) => (v === u ? z + by : z)))
    assert.ok(Math.abs(mine - (moved(h) - moved(-h)) / (2 * h)) < 1e-6, `logit ${u}`)
  })
})

test('with a contrast the expected gradient of the OPD term is that of the reverse KL to the normalised teacher', () => {
  const normalised = (values: number[]): number[] => {
    const total = Math.log(values.reduce((sum, z) => sum + Math.exp(z), 0))
    return values.map((z) => z - total)
  }
  const [base, hinted] = [normalised([0.1, 0.2, 0.9, -0.7]), normalised([0.5, 0.1, 0.4, -0.6])]
  const teacher = normalised(base.map((value, v) => value + 3 * (hinted[v]! - value)))
  const logits = [0.3, -0.4, 1.1, 0]
  const kl = (z: number[]): number => normalised(z).reduce((sum, lp, v) => sum + Math.exp(lp) * (lp - teacher[v]!), 0)
  const now = normalised(logits)
  const weights = { policy: new Float32Array(4), importance: Float32Array.from(now, Math.exp), opd: 1, kl: 0 }
  const one = { advantage: 0, weights, old: now, now, base, teacher: hinted }
  const [gradient = new Float64Array()] = sampledLoss([one], { ...constants, opdContrast: 3 }).gradients
  const total = gradient.reduce((sum, g) => sum + g, 0)
  logits.forEach((_, u) => {
    const h = 1e-5
    const moved = (by: number): number => kl(logits.map((z, v) => (v === u ? z + by : z)))
    const slope = (moved(h) - moved(-h)) / (2 * h)
    assert.ok(Math.abs(gradient[u]! - Math.exp(now[u]!) * total - slope) < 1e-6, `logit ${u}`)
  })
  assert.throws(() => sampledLoss([{ ...one, base: null }], { ...constants, opdContrast: 3 }), /base model/)
})

test('one token with a log-ratio of 8 nats has the gradient of one with logRatioMax', () => {
  const one = (teacher: number): number =>
    sampledLoss(
      [
        {
          advantage: 0,
          weights: { policy: new Float32Array(1), importance: Float32Array.of(1), opd: 0.5, kl: 0 },
          old: [-1],
          now: [-1],
          base: null,
          teacher: [teacher],
        },
      ],
      constants,
    ).gradients[0]![0]!
  assert.equal(one(-9), one(-3))
  assert.equal(one(-9), 1)
  assert.equal(one(-1), 0)
})

test('the estimates of the divergences agree with their expectations', () => {
  const old = [0.5, 0.3, 0.2]
  const now = [0.4, 0.35, 0.25]
  const base = [0.6, 0.3, 0.1]
  const kl = (p: number[], q: number[]): number => p.reduce((sum, x, v) => sum + x * Math.log(x / q[v]!), 0)
  // 1000 tokens in the exact proportions of `old`.
  const tokens = old.flatMap((p, v) => Array.from({ length: Math.round(1000 * p) }, () => v))
  const of = (p: number[]): number[] => tokens.map((v) => Math.log(p[v]!))
  const found = sampledDivergences([{ old: of(old), now: of(now), base: of(base) }])
  assert.ok(Math.abs(found.parent - kl(now, old)) < 1e-12)
  assert.ok(Math.abs(found.base - kl(now, base)) < 1e-12)
})
