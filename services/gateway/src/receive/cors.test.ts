/** Pages of listed origins may send requests and read responses; other origins get no header. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sha256, startRig, USER } from '../../../../test/kit/gateway.ts'

const APP = 'https://app.example'
const PREFLIGHT = {
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization,content-type,x-stainless-os',
  'access-control-request-private-network': 'true',
}

test('a listed origin passes preflight without a key and reads answers with their headers, whole, streamed and refused', async () => {
  const rig = await startRig({
    settings: { origins: [APP], keys: [{ id: 'one', sha256: sha256(Buffer.from('token')) }] },
  })
  try {
    const first = await rig.fetch('/v1/chat/completions', { method: 'OPTIONS', headers: { origin: APP, ...PREFLIGHT } })
    assert.deepEqual([first.status, await first.text()], [204, ''])
    const told = (name: string): string | null => first.headers.get(`access-control-${name}`)
    assert.deepEqual(
      [
        told('allow-origin'),
        told('allow-headers'),
        told('allow-private-network'),
        told('allow-credentials'),
        first.headers.get('vary'),
      ],
      [APP, PREFLIGHT['access-control-request-headers'], 'true', null, 'Origin'],
    )
    assert.match(told('allow-methods')!, /POST/)
    for (const [body, key, status] of [
      [{}, 'token', 200],
      [{ stream: true }, 'token', 200],
      [{ n: 99 }, 'token', 400],
      [{}, 'wrong', 401],
    ] as const) {
      const response = await rig.fetch('/v1/chat/completions', {
        json: { model: 'policy', messages: [USER('Hi')], ...body },
        headers: { origin: APP, authorization: `Bearer ${key}` },
      })
      await response.text()
      assert.deepEqual(
        [response.status, response.headers.get('access-control-allow-origin'), response.headers.get('vary')],
        [status, APP, 'Origin'],
      )
      assert.match(response.headers.get('access-control-expose-headers')!, /x-instar-turn-id/)
    }
  } finally {
    await rig.stop()
  }
})

test('an origin that is not listed gets no preflight and no header, with and without keys', async () => {
  const open = await startRig({ settings: { origins: [APP] } })
  const locked = await startRig({ settings: { keys: [{ id: 'one', sha256: sha256(Buffer.from('token')) }] } })
  try {
    for (const [rig, origin, status] of [
      [open, 'https://evil.example', 403],
      [locked, APP, 401],
    ] as const) {
      const first = await rig.fetch('/v1/chat/completions', { method: 'OPTIONS', headers: { origin, ...PREFLIGHT } })
      assert.deepEqual([first.status, first.headers.get('access-control-allow-origin')], [status, null])
    }
    const answered = await locked.fetch('/v1/models', { headers: { origin: APP, authorization: 'Bearer token' } })
    assert.deepEqual([answered.status, answered.headers.get('access-control-allow-origin')], [200, null])
    const own = await open.fetch('/v1/models')
    assert.deepEqual([own.status, own.headers.get('access-control-allow-origin')], [200, null])
  } finally {
    await open.stop()
    await locked.stop()
  }
})
