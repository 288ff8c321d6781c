/** What commands send before the gateway has shown that it knows the admin token in their data folder: no secret. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, createServer as createSocketServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { adminProof, NONCE_BYTES, PROOF_PATH } from '@instar/process/admin-proof'
import { ADMIN_TOKEN, Publisher, startRig, type Rig } from '../../test/kit/gateway.ts'
import { folder, instar } from '../../test/kit/cli.ts'

const TOKEN = 'instar-admin-of-the-tests-0123456789'
const COMMANDS = [
  ['versions'],
  ['doctor'],
  ['rollback', '0'],
  ['open'],
  ['thaw'],
  ['replay', '--branch', 'b'],
  ['judge', '--judge', 'self'],
]

const withToken = (): string => {
  const data = folder()
  writeFileSync(join(data, 'admin.token'), `${TOKEN}\n`, { mode: 0o600 })
  return data
}
const listening = async (t: TestContext, server: Server, host = '127.0.0.1'): Promise<number> => {
  server.listen(0, host)
  await once(server, 'listening')
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}
const errorCode = ({ json }: { json: unknown }): string | undefined =>
  (json as { error?: { code: string } } | undefined)?.error?.code

/** Listens and keeps what it is sent; answers everything with `body`. */
const foreign = async (
  t: TestContext,
  body: (url: string) => string,
  status = 200,
): Promise<{ port: number; sent: () => string }> => {
  let sent = ''
  const server = createServer((request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(body(request.url ?? ''))
  })
  server.on('connection', (socket: Socket) => {
    socket.on('data', (bytes: Buffer) => (sent += bytes.toString('latin1')))
  })
  t.after(() => server.closeAllConnections())
  return { port: await listening(t, server), sent: () => sent }
}

const rigOf = async (t: TestContext, data: string, host = '127.0.0.1', settings = {}): Promise<Rig> => {
  const log = openMemoryLog()
  await new Publisher(log).start()
  const rig = await startRig({
    log,
    settings: { adminToken: null, adminTokenFile: join(data, 'admin.token'), host, ...settings },
  })
  t.after(() => rig.stop())
  return rig
}
const portOf = ({ url }: Rig): string => new URL(url).port

describe('a listener that is no gateway of the data folder', () => {
  for (const [what, body, status] of [
    ['answers as a gateway', () => '{"status":"ready","serving":3,"head":3,"path":"/"}', 200],
    ['gives a proof of another token', () => JSON.stringify({ proof: 'A'.repeat(43) }), 200],
    ['gives a proof of no bytes', () => JSON.stringify({ proof: '' }), 200],
    ['answers without an end', () => `{"proof":"${'A'.repeat(1 << 20)}"}`, 200],
    ['has no such route, as an older gateway', () => '{"error":{"code":"unknown_route"}}', 404],
  ] as const)
    test(`${what}: gets neither token nor command`, async (t) => {
      const { port, sent } = await foreign(t, body, status)
      for (const command of COMMANDS) {
        const before = sent().length
        const env = { INSTAR_DATA: withToken(), INSTAR_PORT: String(port) }
        const result = await instar([...command, '--json'], env)
        const received = sent().slice(before)
        ok(!received.includes(TOKEN) && !/instar-admin-token|authorization|POST/i.test(received), command[0])
        for (const line of received.split('\r\n').filter((one) => one.endsWith(' HTTP/1.1')))
          match(line, /^GET \/health\/(admin-proof\?nonce=[\w-]{43}|live) HTTP/, command[0])
        if (['rollback', 'open', 'thaw', 'replay', 'judge'].includes(command[0]!))
          deepEqual([result.code, errorCode(result)], [1, 'gateway_not_proven'], command[0])
        if (command[0] === 'doctor') ok(result.code !== 0 && result.out.includes('gateway_not_proven'), result.out)
      }
    })

  test('a listener that forwards the question from its own port to the gateway is refused', async (t) => {
    const data = withToken()
    const rig = await rigOf(t, data)
    let sent = ''
    const relay = createSocketServer((client) => {
      const gateway = connect(Number(portOf(rig)), '127.0.0.1')
      client.on('data', (bytes) => (sent += bytes.toString('latin1')))
      for (const socket of [client, gateway]) socket.on('error', () => undefined)
      client.pipe(gateway).pipe(client)
    })
    const port = await listening(t, relay)
    const result = await instar(['open', '--json'], { INSTAR_DATA: data, INSTAR_PORT: String(port) })
    deepEqual([result.code, errorCode(result)], [1, 'gateway_not_proven'])
    match(sent, /^GET \/health\/admin-proof/)
    doesNotMatch(sent, new RegExp(TOKEN))
  })

  test('a listener at the port of the gateway on another address, which forwards the question, is refused', async (t) => {
    const data = withToken()
    const rig = await rigOf(t, data)
    const relay = createSocketServer((client) => {
      const gateway = connect(Number(portOf(rig)), '127.0.0.1')
      for (const socket of [client, gateway]) socket.on('error', () => undefined)
      client.pipe(gateway).pipe(client)
    })
    relay.listen(Number(portOf(rig)), '127.0.0.2')
    await once(relay, 'listening')
    t.after(() => relay.close())
    const env = { INSTAR_DATA: data, INSTAR_PORT: portOf(rig), INSTAR_HOST: '127.0.0.2' }
    equal(errorCode(await instar(['open', '--json'], env)), 'gateway_not_proven')
  })

  test('one that gives the proof and closes gets no second connection', async (t) => {
    let connections = 0
    let sent = ''
    const server = createServer((request, response) => {
      const nonce = Buffer.from(new URL(request.url!, 'http://x').searchParams.get('nonce') ?? '', 'base64url')
      const { localAddress: address, localPort: port } = request.socket
      const proof = adminProof(TOKEN, nonce, { address: address!, port: port! }).toString('base64url')
      response.setHeader('connection', 'close').end(JSON.stringify({ proof }))
    })
    server.on('connection', (socket: Socket) => {
      connections += 1
      socket.on('data', (bytes: Buffer) => (sent += bytes.toString('latin1')))
    })
    const env = { INSTAR_DATA: withToken(), INSTAR_PORT: String(await listening(t, server)) }
    equal(errorCode(await instar(['open', '--json'], env)), 'not_running')
    deepEqual([connections, sent.includes(TOKEN)], [1, false])
  })

  test('an API key and INSTAR_ADMIN_TOKEN are sent unasked, the token of the file is not', async (t) => {
    const { port, sent } = await foreign(t, () => '{"path":"/","expires_in":1}')
    const env = { INSTAR_DATA: withToken(), INSTAR_PORT: String(port) }
    equal((await instar(['open'], { ...env, INSTAR_KEY: 'sk-a' })).code, 0)
    ok(sent().includes('Bearer sk-a') && !sent().includes(TOKEN))
    equal((await instar(['open'], { ...env, INSTAR_ADMIN_TOKEN: ADMIN_TOKEN })).code, 0)
    ok(sent().includes(ADMIN_TOKEN) && !sent().includes(TOKEN))
  })
})

describe('a gateway of the data folder', () => {
  for (const [host, names] of [
    ['127.0.0.1', ['127.0.0.1', 'localhost']],
    ['::1', ['::1']],
    ['0.0.0.0', ['0.0.0.0', '127.0.0.1']],
    ['::', ['::', '::1', '127.0.0.1', 'localhost']],
  ] as const)
    test(`that listens on ${host} gets commands by ${names.join(', ')}`, async (t) => {
      const data = withToken()
      const rig = await rigOf(t, data, host, { open: true })
      for (const name of names) {
        const env = { INSTAR_DATA: data, INSTAR_PORT: portOf(rig), INSTAR_HOST: name }
        const opened = await instar(['open', '--json'], env)
        deepEqual([opened.code, opened.err], [0, ''], name)
        match((opened.json as { url: string }).url, /^http:\/\/.+/)
      }
    })

  test('proves the token of its file for its own end alone, and no other one; a nonce has 32 bytes', async (t) => {
    const data = withToken()
    const rig = await rigOf(t, data)
    const nonce = Buffer.alloc(NONCE_BYTES, 7)
    const ask = async (text: string): Promise<[number, string | undefined]> => {
      const response = await fetch(`${rig.url}${PROOF_PATH}?nonce=${text}`)
      return [response.status, ((await response.json()) as { proof?: string }).proof]
    }
    const end = { address: '127.0.0.1', port: Number(portOf(rig)) }
    const proof = adminProof(TOKEN, nonce, end).toString('base64url')
    deepEqual(await ask(nonce.toString('base64url')), [200, proof])
    for (const wrong of ['', 'A'.repeat(42), 'A'.repeat(44), 'A'.repeat(4000), `${'A'.repeat(43)}&nonce=b`])
      deepEqual(await ask(wrong), [400, undefined], wrong.slice(0, 60))
    const asToken = await fetch(`${rig.url}/admin/thaw`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-instar-admin-token': proof },
      body: '{}',
    })
    equal(asToken.status, 401)
    ok(!readFileSync(join(data, 'admin.token'), 'utf8').includes(proof))
    const chosen = await startRig()
    t.after(() => chosen.stop())
    const refused = await fetch(`${chosen.url}${PROOF_PATH}?nonce=${nonce.toString('base64url')}`)
    deepEqual(
      [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
      [501, 'not_available'],
    )
  })
})

test('a proof is HMAC-SHA256 of domain, nonce and end; IPv4 in IPv6 is IPv4, and a zone does not count', () => {
  const nonce = Buffer.alloc(NONCE_BYTES, 1)
  const proof = (address: string, port = 1): string => adminProof(TOKEN, nonce, { address, port }).toString('hex')
  equal(proof('127.0.0.1'), '3b5756a2f8af17333b73e732aa7545bbc5957abc3ac2b129b0203e0fe2662b67')
  equal(proof('::ffff:127.0.0.1'), proof('127.0.0.1'))
  equal(proof('fe80::1%eth0'), proof('FE80::1'))
  equal(new Set([proof('127.0.0.1'), proof('127.0.0.2'), proof('127.0.0.1', 2), proof('::1')]).size, 4)
})
