/** What a report says of its modes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROVES, provenBy } from './modes.ts'

test('a report says once what each of its modes proves', () => {
  assert.deepEqual(provenBy([]), {})
  assert.deepEqual(provenBy(['requests', 'digests', 'requests']), {
    requests: PROVES.requests,
    digests: PROVES.digests,
  })
})
