import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { mostConnections } from './connections.ts'

const MOST = 8

const rigOf = async (t: TestContext, goOn: Promise<void>): Promise<Rig> => {
  const rig = await startRig({
    settings: { maxConnections: MOST },
    script: () => ({ text: 'Hello there', before: () => goOn }),
  })
  t.after(() => rig.stop())
  return rig
}
const open = async (t: TestContext, rig: Rig, sent = ''): Promise<Socket> => {
  const { hostname, port } = new URL(rig.url)
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  if (sent !== '') socket.write(sent)
  return socket
}
const figure = async (rig: Rig, name: string): Promise<number> => {
  const response = await fetch(`${rig.url}/metrics`, { headers: { connection: 'close' } })
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await response.text())?.[1])
}
const get = 'GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'
const asked = JSON.stringify({ model: 'policy', messages: [USER('Hi')] })
const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${asked.length}\r\n`

for (const [name, sent] of [
  ['that send nothing', ''],
  ['whose headers do not end', 'GET / HTTP/1.1\r\nHost: 127'],
  ['whose body does not end', `${head}\r\n{`],
] as const)
  test(`connections ${name} keep no new client out, and a running answer goes on`, async (t) => {
    const goOn = Promise.withResolvers<void>()
    const rig = await rigOf(t, goOn.promise)
    const answer = await open(t, rig, `${head}Connection: close\r\n\r\n${asked}`)
    while ((await figure(rig, 'instar_requests_running')) !== 1);
    for (let i = 0; i < 4 * MOST; i += 1) await open(t, rig, sent)
    const served = await text(await open(t, rig, get))
    assert.match(served, /^HTTP\/1\.1 200 /)
    assert.ok((await figure(rig, 'instar_connections')) <= MOST)
    assert.ok((await figure(rig, 'instar_connections_ended_total')) >= 3 * MOST)
    goOn.resolve()
    assert.match(await text(answer), /Hello there/)
  })

test('half of the files that the process may open are for connections, and 4,096 at most', () => {
  const limits = (soft: string): string =>
    `Limit                     Soft Limit           Hard Limit           Units\nMax open files            ${soft.padEnd(20)} 1048576              files\n`
  assert.deepEqual(
    ['1024', '2048', '1048576', 'unlimited'].map((soft) => mostConnections(limits(soft))),
    [512, 1024, 4096, 4096],
  )
  assert.equal(mostConnections(''), 512)
})
