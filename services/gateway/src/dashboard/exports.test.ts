import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { Readable } from 'node:stream'
import { openMemoryLog } from '@instar/log'
import { startRig, turnsOf, USER } from '../../../../test/kit/gateway.ts'
import { heldLog } from '../../../../test/kit/held-log.ts'
import { Exports, MOST_EXPORTS, MOST_EXPORTS_EACH, readAsTaken } from './exports.ts'

test('a caller has at most two exports, and all callers four', () => {
  const exports = new Exports()
  const overloaded = { code: 'overloaded' }
  const ends = ['a', 'a', 'b'].map((who) => exports.begin(who))
  assert.throws(() => exports.begin('a'), overloaded)
  ends.push(exports.begin('b'))
  assert.equal(exports.size, MOST_EXPORTS)
  assert.throws(() => exports.begin('c'), overloaded)
  ends[0]!()
  ends[0]!()
  assert.equal(exports.size, MOST_EXPORTS - 1)
  exports.begin('c')
  assert.throws(() => exports.begin('d'), overloaded)
})

test('a line is read once the reader has taken the one before, and the longest is charged', async (t) => {
  const MIB = 1 << 20
  const ahead: number[] = []
  let held = 0
  let read = 0
  const server = createServer((_request, raw) => {
    const lines = async function* () {
      for (; read < 20; read += 1) {
        ahead.push(raw.writableLength)
        yield `${'x'.repeat(read === 7 ? 3 * MIB : MIB)}\n`
      }
    }
    const gone = new AbortController()
    Readable.from(readAsTaken(lines(), raw, gone.signal, (bytes) => (held += bytes))).pipe(raw)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const [response] = (await once(get({ port: (server.address() as AddressInfo).port, agent: false }), 'response')) as [
    IncomingMessage,
  ]
  let taken = 0
  for await (const chunk of response) taken += (chunk as Buffer).length
  assert.deepEqual([taken, read, held], [22 * MIB + 20, 20, 3 * MIB + 1])
  assert.deepEqual([...new Set(ahead)], [0], 'bytes that waited when a line was read')
})

/** A gateway with two sessions, whose log gives no record from `hold` until `release`; one that was read stays in memory. */
const heldRig = async (t: TestContext) => {
  const log = openMemoryLog()
  const held = heldLog(log)
  const rig = await startRig({ log: held.log, settings: { recentRecordBytes: 0 } })
  t.after(() => rig.stop())
  for (const session of ['one', 'two'])
    await rig.client.chat.completions.create(
      { model: 'policy', messages: [USER('The capital of France?')] },
      { headers: { 'x-session-id': session } },
    )
  const [path, other] = (await turnsOf(log)).map(
    ({ session }) => `/v1/dashboard/sessions/${encodeURIComponent(session)}/export`,
  ) as [string, string]
  return {
    rig,
    path,
    other,
    hold: held.hold,
    release: held.release,
  }
}

test('the gateway refuses a third export of a caller while two run, until one ends', { timeout: 30_000 }, async (t) => {
  const { rig, path, hold, release } = await heldRig(t)
  hold()
  const running = Array.from({ length: MOST_EXPORTS_EACH + 1 }, () => rig.fetch(path))
  const refused = await Promise.race(running)
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '5'])
  const { error } = (await refused.json()) as { error: { code: string; message: string } }
  assert.equal(error.code, 'overloaded')
  assert.match(error.message, /^2 exports of this caller run.*read one to its end first/)
  release()
  const done = await Promise.all(running)
  assert.deepEqual(
    done.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 429],
  )
  for (const response of done) if (response.status === 200) assert.match(await response.text(), /France/)
  assert.equal((await rig.fetch(path)).status, 200, 'once they have ended')
})

test('exports of one connection, also those that wait for their turn, end with it', { timeout: 30_000 }, async (t) => {
  const { rig, path, other, hold, release } = await heldRig(t)
  const { hostname, port } = new URL(rig.url)
  const refused = async (): Promise<boolean> =>
    /request_errors_total\{code="overloaded"\}/.test(await (await rig.fetch('/metrics')).text())
  hold()
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\n\r\n`.repeat(MOST_EXPORTS_EACH + 1))
  while (!(await refused()));
  socket.destroy()
  release()
  while ((await rig.fetch(path)).status === 429);
  // Both places are free again.
  hold()
  const running = Array.from({ length: MOST_EXPORTS_EACH + 1 }, () => rig.fetch(other))
  await Promise.race(running)
  release()
  assert.deepEqual(
    (await Promise.all(running)).map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 429],
  )
})
