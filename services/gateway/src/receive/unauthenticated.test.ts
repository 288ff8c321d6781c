/** What a client without a key may make a gateway with keys do: no memory and no work beyond that of its connections. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { sha256, startRig, type Rig } from '../../../../test/kit/gateway.ts'
import { MOST_PIPELINED } from './listener.ts'

const KEY = { id: 'one', sha256: sha256(Buffer.from('secret')), scopes: ['inference' as const, 'admin' as const] }

const locked = async (t: TestContext): Promise<Rig> => {
  const rig = await startRig({ settings: { keys: [KEY] } })
  t.after(() => rig.stop())
  return rig
}
const open = async (rig: Rig): Promise<Socket> => {
  const { hostname, port } = new URL(rig.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}
const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`
const statuses = (answers: string): string[] =>
  [...answers.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status!)

test('the body of a request about the session of a browser is refused by its length before it arrives', async (t) => {
  const rig = await locked(t)
  for (const method of ['POST', 'DELETE']) {
    const socket = await open(rig)
    socket.write(
      `${method} /v1/dashboard/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${32 << 20}\r\n\r\n`,
    )
    const [answer] = (await once(socket, 'data')) as [Buffer]
    assert.match(answer.toString('latin1'), /^HTTP\/1\.1 413 /, method)
    socket.destroy()
  }
})

test('a connection with more requests than may wait for their responses is closed', async (t) => {
  const rig = await locked(t)
  const most = await open(rig)
  const key = 'Authorization: Bearer secret\r\n'
  most.write(get('/v1/models', key).repeat(MOST_PIPELINED - 1) + get('/v1/models', `${key}Connection: close\r\n`))
  assert.deepEqual(
    statuses(await text(most)),
    Array.from({ length: MOST_PIPELINED }, () => '200'),
  )
  for (const path of ['/', '/v1/models', '/dashboard/vendor/preact.js', '/health/live']) {
    const more = await open(rig)
    more.write(get(path).repeat(600))
    assert.ok(statuses(await text(more)).length <= MOST_PIPELINED, path)
  }
  const metrics = await (await rig.fetch('/metrics', { headers: { authorization: 'Bearer secret' } })).text()
  const counted = [...metrics.matchAll(/^instar_requests_total\{.*\} (\d+)$/gm)]
  const sum = counted.reduce((all, [, count]) => all + Number(count), 0)
  assert.ok(sum > MOST_PIPELINED && sum <= 5 * MOST_PIPELINED, `${sum} requests were handled`)
})
