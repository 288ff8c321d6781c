import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from '@instar/process'
import { quantile, trafficOf } from './traffic.ts'

test('a quantile lies within its bucket as in histogram_quantile', () => {
  const buckets = [
    [0.1, 10],
    [0.2, 30],
    [0.4, 40],
    [Infinity, 40],
  ] as const
  assert.equal(quantile(buckets, 0.25), 0.1)
  assert.ok(Math.abs(quantile(buckets, 0.5)! - 0.15) < 1e-12)
  assert.ok(Math.abs(quantile(buckets, 0.99)! - 0.392) < 1e-12)
  assert.equal(
    quantile(
      [
        [0.1, 0],
        [Infinity, 0],
      ],
      0.5,
    ),
    null,
  )
  assert.equal(quantile([], 0.5), null)
  assert.equal(
    quantile(
      [
        [0.1, 0],
        [Infinity, 3],
      ],
      0.5,
    ),
    0.1,
    'beyond the last end',
  )
})

test('traffic sums the dialects', async () => {
  const metrics = createMetrics()
  for (const dialect of ['chat', 'messages'] as const) {
    metrics.count('instar_prompt_tokens_total', { dialect }, 30)
    metrics.count('instar_generation_tokens_total', { dialect }, 12)
    metrics.observe('instar_request_duration_seconds', { dialect }, 0.3)
    metrics.observe('instar_time_to_first_token_seconds', { dialect }, 0.03)
    metrics.observe('instar_time_per_output_token_seconds', { dialect }, dialect === 'chat' ? 0.01 : 0.03)
  }
  const found = trafficOf(await metrics.allValues())
  assert.deepEqual([found.requests, found.prompt_tokens, found.tokens], [2, 60, 24])
  assert.ok(Math.abs(found.per_token! - 0.02) < 1e-9)
  assert.equal(found.first_token.count, 2)
  assert.ok(found.first_token.p50! > 0 && found.first_token.p50! <= found.first_token.p99!)
  assert.deepEqual(trafficOf([]), {
    requests: 0,
    prompt_tokens: 0,
    tokens: 0,
    first_token: { count: 0, p50: null, p99: null },
    duration: { count: 0, p50: null, p99: null },
    per_token: null,
  })
})
