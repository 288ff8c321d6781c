/** What a scorer of its own process sends to the address of INSTAR_GATEWAY before the gateway has shown that it knows the token. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { adminProof } from '@instar/process/admin-proof'
import { startRig } from '../../../../test/kit/gateway.ts'
import { createJudges, judgeTurn, onlyJudge, scorerConfig, type Evidence } from '../app.ts'
import { ownGateway } from './own-gateway.ts'
import type { GatewayAddress } from './self-judge.ts'

const TOKEN = 'instar-admin-of-the-tests-0123456789'
const EVIDENCE: Evidence = {
  request: 'What is 7 plus 6?',
  answer: 'a private answer',
  calls: false,
  next: { user: 'Thanks!', tools: '' },
}
const GOOD = '{"reason": "Thanks.", "verdict": "good", "hint": ""}'
const VERDICT = JSON.stringify({ choices: [{ message: { content: GOOD } }] })

const tokenFile = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-scorer-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'admin.token')
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 })
  return file
}

/** Listens and keeps what it is sent. */
const listening = async (t: TestContext, answer: RequestListener) => {
  const seen = { sent: '', connections: 0, url: '' }
  const server = createServer(answer)
  server.on('connection', (socket: Socket) => {
    seen.connections += 1
    socket.on('data', (bytes: Buffer) => (seen.sent += bytes.toString('latin1')))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  seen.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return seen
}

const judged = async (gateway: () => Promise<GatewayAddress>) => {
  const lines: string[] = []
  const self = { votes: 1, agreement: 0, maxTokens: 300, giveUpMs: 0 }
  const judges = createJudges(onlyJudge(scorerConfig.parse({ self }), 'self'), {
    now: Date.now,
    logLine: (line) => lines.push(line),
    gateway,
  })
  const { verdicts } = await judgeTurn([judges[0]!], { feedback: null }, EVIDENCE, new AbortController().signal)
  return { verdict: verdicts[0]!, lines }
}

for (const [what, proof] of [
  ['answers as a gateway', () => VERDICT],
  ['gives a proof of another token', () => JSON.stringify({ proof: 'A'.repeat(43) })],
] as const)
  test(`a listener that ${what} gets neither the token of the file nor what is to be judged`, async (t) => {
    const seen = await listening(t, (request, response) => {
      response.end(request.url?.startsWith('/health/admin-proof') ? proof() : VERDICT)
    })
    const gateway = ownGateway({ gatewayUrl: seen.url, adminToken: null, adminTokenFile: tokenFile(t) })
    const { verdict, lines } = await judged(gateway)
    assert.ok(!seen.sent.includes(TOKEN) && !seen.sent.includes('private') && !seen.sent.includes('POST'), seen.sent)
    assert.match(seen.sent, /^GET \/health\/admin-proof\?nonce=[\w-]{43} HTTP/)
    assert.deepEqual([verdict.value, verdict.note], [null, 'unreachable (gateway_not_proven)'])
    assert.match(lines[0]!, /gives no verdict: gateway_not_proven/)
  })

test('one that gives the proof and closes the connection gets no second one', async (t) => {
  const seen = await listening(t, (request, response) => {
    const nonce = Buffer.from(new URL(request.url!, 'http://x').searchParams.get('nonce') ?? '', 'base64url')
    const { localAddress: address, localPort: port } = request.socket
    const proof = adminProof(TOKEN, nonce, { address: address!, port: port! }).toString('base64url')
    response.setHeader('connection', 'close').end(JSON.stringify({ proof }))
  })
  const gateway = ownGateway({ gatewayUrl: seen.url, adminToken: null, adminTokenFile: tokenFile(t) })
  const { verdict } = await judged(gateway)
  assert.deepEqual([verdict.note, seen.connections], ['unreachable (ECONNRESET)', 1])
  assert.ok(!seen.sent.includes(TOKEN))
})

test('the gateway of the same file is asked, and its answer is read', async (t) => {
  const adminTokenFile = tokenFile(t)
  const rig = await startRig({ settings: { adminToken: null, adminTokenFile }, script: () => GOOD })
  t.after(() => rig.stop())
  const gateway = ownGateway({ gatewayUrl: `${rig.url}/`, adminToken: null, adminTokenFile })
  const { verdict, lines } = await judged(gateway)
  assert.deepEqual([verdict.value, lines], [1, []])
})

test('a token of INSTAR_ADMIN_TOKEN is sent unasked, and that of the file to a server with a certificate', async (t) => {
  const given = { adminTokenFile: tokenFile(t), adminToken: 'chosen-by-the-operator' }
  const seen = await listening(t, (_request, response) => void response.end(VERDICT))
  await judged(ownGateway({ ...given, gatewayUrl: seen.url }))
  assert.match(seen.sent, /^POST \/admin\/judge\/chat\/completions HTTP[^]*chosen-by-the-operator/)
  const https = ownGateway({ ...given, adminToken: null, gatewayUrl: 'https://gateway.example' })
  assert.deepEqual(await https(), { url: 'https://gateway.example', key: TOKEN, proves: false })
})
