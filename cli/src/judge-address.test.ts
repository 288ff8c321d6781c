/** What the scorer of `npm start` sends to the gateway's address when another process listens there, as while it stops. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import { adminTokenIn } from '@instar/process'
import { createJudges, judgeTurn, onlyJudge, scorerConfig } from '@instar/scorer'
import { folder } from '../../test/kit/cli.ts'
import { judgeAddress } from './judge-address.ts'

const TOKEN = 'instar-admin-of-the-tests-0123456789'
const EVIDENCE = { request: 'What is 7 plus 6?', answer: 'a private answer', calls: false, next: null }

test('another process at the port gets neither the token of the file nor the turn', async (t) => {
  const data = folder()
  writeFileSync(adminTokenIn(data), `${TOKEN}\n`, { mode: 0o600 })
  let sent = ''
  const server = createServer((_request, response) => response.end('{}')).listen(0, '127.0.0.1')
  server.on('connection', (socket: Socket) => socket.on('data', (bytes: Buffer) => (sent += bytes.toString('latin1'))))
  t.after(() => server.close())
  await once(server, 'listening')
  const address = judgeAddress({ data, gateway: {} }, (server.address() as AddressInfo).port)
  assert.equal(address?.key, TOKEN)
  const config = onlyJudge(scorerConfig.parse({ self: { votes: 1, giveUpMs: 0 } }), 'self')
  const judges = createJudges(config, { now: Date.now, gateway: async () => address })
  const { verdicts } = await judgeTurn(judges, { feedback: null }, EVIDENCE, new AbortController().signal)
  assert.equal(verdicts[0]!.note, 'unreachable (gateway_not_proven)')
  assert.match(sent, /^GET \/health\/admin-proof/)
  assert.ok(!sent.includes(TOKEN) && !sent.includes('private'))
})

test('a token that was set is sent unasked; without one nobody judges', () => {
  const data = folder()
  const given = { url: 'http://127.0.0.1:1', key: TOKEN, proves: false }
  assert.deepEqual(judgeAddress({ data, gateway: { adminToken: TOKEN } }, 1), given)
  assert.equal(judgeAddress({ data, gateway: {} }, 1), null)
})
