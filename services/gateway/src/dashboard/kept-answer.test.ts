/** An answer that is kept as bytes, and compressed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import Fastify from 'fastify'
import { KeptAnswer } from './kept-answer.ts'

test('an answer that could not be compressed is compressed again for the next reader, and then kept', async (t) => {
  let tries = 0
  const kept = new KeptAnswer(async (bytes) => {
    tries += 1
    if (tries === 1) throw new Error('no memory for it')
    return gzipSync(bytes)
  })
  const parts = [{}]
  const server = Fastify()
  t.after(() => server.close())
  server.get('/', (request, reply) => kept.send(request, reply, parts, () => ({ figure: 1 })))
  const ask = () => server.inject({ url: '/', headers: { 'accept-encoding': 'gzip' } })
  assert.equal((await ask()).statusCode, 500)
  for (let i = 0; i < 2; i += 1) {
    const answer = await ask()
    assert.deepEqual(
      [answer.statusCode, answer.headers['content-encoding'], gunzipSync(answer.rawPayload).toString()],
      [200, 'gzip', '{"figure":1}'],
    )
  }
  assert.equal(tries, 2)
})
