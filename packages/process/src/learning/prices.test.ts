/** The estimate of what an update costs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pricesConfig, pricesSection, updateCost } from './prices.ts'
import { resolveSection } from './resolve.ts'

const FIGURES = {
  tokens: 1_000,
  forwardPromptTokens: 1_500_000,
  forwardResponseTokens: 300_000,
  teacherTokens: 200_000,
  backwardPromptTokens: 700_000,
  backwardResponseTokens: 300_000,
}
const PRICES = { currency: 'EUR', forward: 0.25, forwardBackward: 1, sampling: 2 }

test('an update costs its tokens forward, with gradients, and sampled, each by its price of a million', () => {
  assert.deepEqual(updateCost(FIGURES, PRICES), { currency: 'EUR', amount: 2 * 0.25 + 1 + 0.002 })
  assert.deepEqual(updateCost(FIGURES, { ...PRICES, sampling: null }), { currency: 'EUR', amount: 1.5 })
  // A million tokens of the gate's samples cost the price of sampling.
  const { amount = 0 } = updateCost(FIGURES, PRICES, 1e6) ?? {}
  assert.ok(Math.abs(amount - 1.502 - (PRICES.sampling ?? 0)) < 1e-12)
})

test('nothing is shown without a currency and prices of the passes, and for an update whose passes were not counted', () => {
  assert.equal(updateCost(FIGURES, pricesConfig.parse({})), null)
  for (const missing of ['currency', 'forward', 'forwardBackward'])
    assert.equal(updateCost(FIGURES, { ...PRICES, [missing]: null }), null, missing)
  assert.equal(updateCost({ tokens: 1_000, loss: 1 }, PRICES), null)
})

test('prices come from the settings file', () => {
  const file = { source: 'instar.json', settings: { prices: PRICES } }
  const layers = { file, parameters: null, environment: [] }
  assert.deepEqual(resolveSection(pricesSection, layers).config, PRICES)
  const wrong = { ...layers, file: { source: 'instar.json', settings: { prices: { forward: -1 } } } }
  assert.throws(() => resolveSection(pricesSection, wrong), { code: 'bad_request' })
})
