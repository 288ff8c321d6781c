import { test } from 'node:test'
import assert from 'node:assert/strict'
import { refusalAlarm, refusalReason } from './refusals.ts'

test('a refusal names its reason with the figures that led to it; an unknown reason stands alone', () => {
  assert.equal(
    refusalReason('kl_parent', { kl_parent: 0.45 }),
    'kl_parent: KL divergence to its parent 0.45 nats per token',
  )
  assert.equal(
    refusalReason('length_low', { length: 1, length_parent: 48.6 }),
    'length_low: answers of 1.00 tokens, parent 48.60',
  )
  assert.equal(refusalReason('content', {}), 'content: content probes not measured')
  assert.equal(refusalReason('missing_blob', {}), 'missing_blob')
})

test('the third refusal in a row is announced with its reason, the second is not', () => {
  const last = { reason: 'kl_base', figures: { kl_base: 0.031 } }
  assert.equal(refusalAlarm(2, last), '')
  assert.equal(refusalAlarm(3, undefined), '')
  assert.match(refusalAlarm(3, last), /refused 3 updates in a row.*KL divergence to the base 0\.0310 nats per token/s)
})
