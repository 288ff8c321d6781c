import { test } from 'node:test'
import assert from 'node:assert/strict'
import { rejectionAlarm, rejectionReason } from './rejections.ts'

test('a rejection names its reason with the figures that led to it; an unknown reason stands alone', () => {
  assert.equal(
    rejectionReason('kl_parent', { kl_parent: 0.45 }),
    'kl_parent: KL divergence to its parent 0.45 nats per token',
  )
  assert.equal(
    rejectionReason('length_low', { length: 1, length_parent: 48.6 }),
    'length_low: answers of 1.00 tokens, parent 48.60',
  )
  assert.equal(rejectionReason('content', {}), 'content: content probes not measured')
  assert.equal(rejectionReason('missing_blob', {}), 'missing_blob')
})

test('the third rejection in a row is announced with its reason, the second is not', () => {
  const last = { reason: 'kl_base', figures: { kl_base: 0.031 } }
  assert.equal(rejectionAlarm(2, last), '')
  assert.equal(rejectionAlarm(3, undefined), '')
  assert.match(
    rejectionAlarm(3, last),
    /rejected 3 updates in a row.*KL divergence to the base 0\.0310 nats per token/s,
  )
})
