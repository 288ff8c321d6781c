import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf, WrongKeys } from './wrong-keys.ts'

test('an IPv6 customer is one, with all his addresses; IPv4 inside IPv6 is IPv4', () => {
  for (const address of [
    '2001:db8:1:2::1',
    '2001:db8:1:2:ffff::',
    '2001:0db8:0001:0002:3:4:5:6',
    '2001:db8:1:2::1%eth0',
  ])
    assert.equal(networkOf(address), '2001:db8:1:2', address)
  assert.deepEqual(['::1', '::ffff:10.0.0.1', '10.0.0.1', '2001:db8::5'].map(networkOf), [
    '0:0:0:0',
    '10.0.0.1',
    '10.0.0.1',
    '2001:db8:0:0',
  ])
})

test('each address has its own bucket, and only so many are remembered', () => {
  const wrong = new WrongKeys(2, 3)
  for (const address of ['10.0.0.1', '10.0.0.1', '10.0.0.2']) wrong.count(address, 0)
  assert.deepEqual(
    [wrong.waitMs('10.0.0.1', 0), wrong.waitMs('10.0.0.2', 0), wrong.waitMs('10.0.0.3', 0)],
    [30_000, 0, 0],
  )
  assert.equal(wrong.waitMs('10.0.0.1', 30_000), 0)
  for (let i = 0; i < 100; i += 1) wrong.count(`10.0.1.${i}`, 0)
  assert.equal(wrong.size, 3)
})
