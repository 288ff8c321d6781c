/** The estimates on distributions over few tokens, where the expectation over the sampled token can be written out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { entropyAt, klAt, meanOverTokens } from './kl-estimate.ts'
import { createLimit } from './limit.ts'

const P = [0.5, 0.25, 0.15, 0.07, 0.03]
const Q = [0.2, 0.4, 0.1, 0.05, 0.25]
const logs = (p: readonly number[]): Map<number, number> => new Map(p.map((one, id) => [id, Math.log(one)]))
const klOf = (p: readonly number[], q: readonly number[]): number =>
  p.reduce((sum, one, i) => sum + one * Math.log(one / q[i]!), 0)
const entropyOf = (p: readonly number[]): number => -p.reduce((sum, one) => sum + one * Math.log(one), 0)

const position = (k: number, id: number) => ({
  top: P.slice(0, k).map((p, i) => ({ id: i, logprob: Math.log(p) })),
  sampled: { id, logprob: Math.log(P[id]!) },
})
/** Mean and variance over the sampled token. */
const moments = (value: (id: number) => number): { mean: number; variance: number } => {
  const mean = P.reduce((sum, p, id) => sum + p * value(id), 0)
  return { mean, variance: P.reduce((sum, p, id) => sum + p * (value(id) - mean) ** 2, 0) }
}

test('the expectation over the sampled token is the KL, and the entropy, for any number of summed tokens', () => {
  for (let k = 0; k <= P.length; k += 1) {
    const kl = moments((id) => klAt(position(k, id), logs(Q)))
    assert.ok(Math.abs(kl.mean - klOf(P, Q)) < 1e-5, `${k}: ${kl.mean}`)
    const entropy = moments((id) => entropyAt(position(k, id)))
    assert.ok(Math.abs(entropy.mean - entropyOf(P)) < 1e-9, `${k}: ${entropy.mean}`)
  }
})

test('each value is at least 0, and summed tokens leave less noise than the sampled one alone', () => {
  const variances = [0, 2, 4].map((k) => {
    for (const id of P.keys()) assert.ok(klAt(position(k, id), logs(Q)) >= 0)
    return moments((id) => klAt(position(k, id), logs(Q))).variance
  })
  assert.ok(variances[0]! > 3 * variances[1]! && variances[1]! > variances[2]!, variances.join())
})

test('without summed tokens it is k3 of the sampled one; equal distributions give 0', () => {
  const ratio = Q[4]! / P[4]!
  assert.ok(Math.abs(klAt(position(0, 4), logs(Q)) - (ratio - 1 - Math.log(ratio))) < 1e-12)
  for (const k of [0, 3, 5]) assert.ok(Math.abs(klAt(position(k, 3), logs(P))) < 1e-9)
  assert.throws(() => klAt(position(2, 4), new Map([[4, -1]])), /no log-prob of token 0/)
})

test('a bucket of tokens without probability is rounding error, and adds nothing', () => {
  const p = [{ id: 0, logprob: 0 }]
  assert.ok(Math.abs(klAt({ top: p, sampled: p[0]! }, new Map([[0, -1e-7]]))) < 1e-6)
})

test('the standard error takes the answers as clusters', () => {
  assert.deepEqual(meanOverTokens([]), { mean: 0, error: 0 })
  assert.deepEqual(meanOverTokens([[1, 3]]), { mean: 2, error: 0 })
  // Sums 2 and 6 of two tokens each: mean 2, deviations −2 and 2, error √(8 · 2) / 4.
  assert.deepEqual(
    meanOverTokens([
      [1, 1],
      [3, 3],
    ]),
    { mean: 2, error: 1 },
  )
})

test('a limit runs the works in order, as many at once as it says, and goes on after a failure', async () => {
  const limit = createLimit(2)
  const began: number[] = []
  let [running, most] = [0, 0]
  const work = (n: number) => async (): Promise<number> => {
    began.push(n)
    running += 1
    most = Math.max(most, running)
    await new Promise(setImmediate)
    running -= 1
    if (n === 1) throw new Error('one')
    return n
  }
  const outcomes = await Promise.allSettled([0, 1, 2, 3, 4].map((n) => limit(work(n))))
  assert.deepEqual(began, [0, 1, 2, 3, 4])
  assert.equal(most, 2)
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled'],
  )
})
