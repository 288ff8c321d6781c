import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { readBody } from './body.ts'

const expected = (contentLength: number, encoded = false) => ({
  contentLength,
  encoded,
  limit: 1 << 20,
  pace: { graceMs: 50, wholeMs: 1_000 },
})

test('a body that stalls is refused, since its memory is reserved; one of unknown length is not', async () => {
  const slow = new PassThrough()
  slow.write('x')
  await assert.rejects(readBody(slow, expected(1 << 20)), { code: 'request_timeout' })
  assert.equal(slow.listenerCount('data'), 0)

  const unknown = new PassThrough()
  const read = readBody(unknown, expected(1 << 20, true))
  unknown.write('x')
  const other = new PassThrough()
  await assert.rejects(readBody(other, expected(1 << 20)), { code: 'request_timeout' })
  unknown.end()
  assert.equal((await read).toString(), 'x')
})

test('a body that arrives at the pace is read whole', async () => {
  const payload = new PassThrough()
  const read = readBody(payload, expected(300))
  const beside = (length: number): Promise<unknown> =>
    assert.rejects(readBody(new PassThrough(), expected(length)), { code: 'request_timeout' })
  for (let part = 0; part < 3; part += 1) {
    payload.write('y'.repeat(100))
    await beside(1 << 20)
  }
  payload.end()
  assert.equal((await read).length, 300)
})
