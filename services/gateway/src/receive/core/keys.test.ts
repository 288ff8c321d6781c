import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkKey, take, tokenFor, type Bucket, type Key } from './keys.ts'

const key: Key = {
  id: 'anna',
  sha256: '',
  scopes: ['inference'],
  expiresAt: 1000,
  requestsPerMinute: null,
  bytesPerMinute: null,
  concurrent: null,
}
const code = (work: () => void): string => {
  try {
    work()
    return 'fine'
  } catch (error) {
    return (error as { code: string }).code
  }
}

test('a key holds until its end and for its scopes', () => {
  assert.deepEqual(
    [
      code(() => checkKey(key, 'inference', 999)),
      code(() => checkKey(key, 'inference', 1000)),
      code(() => checkKey(key, 'admin', 999)),
      code(() => checkKey(key, null, 999)),
    ],
    ['fine', 'invalid_api_key', 'missing_scope', 'fine'],
  )
  assert.equal(tokenFor('anna', 'x'), 'sk-instar-anna-x')
})

test("a minute's requests at once, then one whenever there is room, told to the millisecond", () => {
  let bucket: Bucket | null = null
  for (let i = 0; i < 3; i += 1) {
    const taken = take(bucket, 3, 0)
    assert.ok('bucket' in taken)
    bucket = taken.bucket
  }
  assert.deepEqual(take(bucket, 3, 0), { waitMs: 20_000 })
  assert.deepEqual(take(bucket, 3, 5_000), { waitMs: 15_000 })
  assert.ok('bucket' in take(bucket, 3, 20_000))
  assert.deepEqual(take({ left: 0, at: 0 }, 3, 3_600_000), { bucket: { left: 2, at: 3_600_000 } })
})
