import { test } from 'node:test'
import assert from 'node:assert/strict'
import { philox, uniform } from './random.ts'
import { highest, logprobOf, sample } from './sample.ts'

const logits = Float32Array.of(1.2, -0.3, 2.5, 0.1, 2.5, -4, 0.9, 1.7)
const hex = (words: readonly number[]) => words.map((word) => word.toString(16).padStart(8, '0')).join(' ')

test("Philox4x32-10 gives the known-answer vectors of its authors' library", () => {
  assert.equal(hex(philox([0, 0, 0, 0], [0, 0])), '6627e8d5 e169c58d bc57ac4c 9b00dbd8')
  const ones = 0xffffffff
  assert.equal(hex(philox([ones, ones, ones, ones], [ones, ones])), '408f276d 41c83b0e a20bc7c6 6d5451fd')
  assert.equal(
    hex(philox([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0])),
    'd16cfe09 94fdcceb 5001e420 24126ea1',
  )
})

test('uniform numbers depend on seed and index only, are in [0, 1) and have mean 0.5', () => {
  assert.equal(uniform(7, 3), uniform(7, 3))
  assert.notEqual(uniform(7, 3), uniform(7, 4))
  assert.notEqual(uniform(7, 3), uniform(-7, 3))
  let sum = 0
  for (let i = 0; i < 10000; i++) {
    const u = uniform(42, i)
    assert.ok(u >= 0 && u < 1)
    sum += u
  }
  assert.ok(Math.abs(sum / 10000 - 0.5) < 0.01)
})

/** Probabilities by definition: temperature, top-k, top-p, renormalisation. */
function expected(temperature: number, topK: number, topP: number): Map<number, number> {
  const ids = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b)
  let filtered = topK > 0 ? ids.slice(0, topK) : ids
  const mass = (list: number[]) => list.map((id) => Math.exp(logits[id]! / temperature))
  const total = mass(filtered).reduce((a, b) => a + b, 0)
  let sum = 0
  filtered = filtered.filter((_, i) => {
    const before = sum
    sum += mass(filtered)[i]! / total
    return topP === 1 || before < topP
  })
  const rest = mass(filtered).reduce((a, b) => a + b, 0)
  return new Map(filtered.map((id, i) => [id, mass(filtered)[i]! / rest]))
}

/** The upper 0.1 % quantile of chi-square, by the Wilson–Hilferty approximation. */
const critical = (df: number) => df * (1 - 2 / (9 * df) + 3.09 * Math.sqrt(2 / (9 * df))) ** 3

for (const [temperature, topK, topP] of [
  [1, 0, 1],
  [0.7, 0, 1],
  [1.3, 4, 1],
  [1, 0, 0.8],
  [0.9, 5, 0.9],
  [2, 1, 1],
] as const) {
  test(`20,000 samples with temperature ${temperature}, top-k ${topK}, top-p ${topP} have the exact probabilities`, () => {
    const exact = expected(temperature, topK, topP)
    const counts = new Map<number, number>()
    const samples = 20000
    for (let i = 0; i < samples; i++) {
      const sampled = sample(logits, { temperature, topK, topP }, uniform(11, i), 3)
      const p = exact.get(sampled.id)
      assert.ok(p !== undefined, `token ${sampled.id} was filtered out`)
      assert.ok(Math.abs(sampled.logprob - Math.log(p)) < 1e-9)
      counts.set(sampled.id, (counts.get(sampled.id) ?? 0) + 1)
      assert.deepEqual(
        sampled.top.map(({ id }) => id),
        [...exact.keys()].slice(0, 3),
      )
    }
    let chi = 0
    for (const [id, p] of exact) chi += ((counts.get(id) ?? 0) - samples * p) ** 2 / (samples * p)
    assert.ok(
      exact.size === 1 || chi < critical(exact.size - 1),
      `chi-square ${chi} with ${exact.size - 1} degrees of freedom`,
    )
  })
}

test('greedy sampling takes the lowest id of equal logits and reports the log-probability at temperature 1', () => {
  const sampled = sample(logits, { temperature: 0, topK: 3, topP: 0.1 }, 0.99, 2)
  assert.equal(sampled.id, 2)
  assert.ok(Math.abs(sampled.logprob - logprobOf(logits, 2, 1)) < 1e-12)
  assert.deepEqual(
    sampled.top.map(({ id }) => id),
    [2, 4],
  )
})

test('the probabilities of all tokens sum to one, for large logits as well', () => {
  const large = Float32Array.from({ length: 5000 }, (_, i) => 300 * Math.sin(i))
  for (const temperature of [0.5, 1]) {
    let sum = 0
    for (let id = 0; id < large.length; id++) sum += Math.exp(logprobOf(large, id, temperature))
    assert.ok(Math.abs(sum - 1) < 1e-9)
  }
})

test('the k highest ids are sorted for any k', () => {
  const values = Float32Array.from({ length: 1000 }, (_, i) => Math.floor(uniform(3, i) * 50))
  const sorted = [...values.keys()].sort((a, b) => values[b]! - values[a]! || a - b)
  for (const k of [1, 2, 7, 64, 999, 1000, 2000]) assert.deepEqual(highest(values, k), sorted.slice(0, k))
})

test('top-p 0.5 of 3,000 equal logits keeps 1,500 tokens', () => {
  const flat = new Float32Array(3000)
  const sampled = sample(flat, { temperature: 1, topK: 0, topP: 0.5 }, 0.9999, 0)
  assert.ok(Math.abs(sampled.logprob + Math.log(1500)) < 1e-3)
})

test('sampling from logits that are not finite fails', () => {
  assert.throws(() => sample(Float32Array.of(1, NaN), { temperature: 1, topK: 0, topP: 1 }, 0.5, 0), /not finite/)
  assert.throws(() => sample(Float32Array.of(1, Infinity), { temperature: 0, topK: 0, topP: 1 }, 0.5, 0), /not finite/)
})
