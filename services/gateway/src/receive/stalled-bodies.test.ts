/** Bodies that stall: memory is charged as they arrive, and at the limit the caller that holds the most gives way. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { brotliCompressSync, constants } from 'node:zlib'
import { sha256, startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'

const MIB = 1024 * 1024
const key = (id: string) => ({
  id,
  sha256: sha256(Buffer.from(`secret-${id}`)),
  scopes: ['inference' as const, 'admin' as const],
})
const NAMES = ['anna', 'ben', 'cleo']
const KEYS = NAMES.map(key)

type Upload = { socket: Socket; send(bytes: string | Buffer): Promise<void>; answer: Promise<string> }
/** A request whose headers are sent. `as`: the name of a key, or null. */
const begin = async ({ url }: Rig, as: string | null, head: string): Promise<Upload> => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  const answer = once(socket, 'data').then(([data]) => (data as Buffer).toString('latin1'))
  answer.catch(() => undefined)
  const send = (bytes: string | Buffer): Promise<void> =>
    new Promise((resolve) => void socket.write(bytes, () => resolve()))
  const authorization = as === null ? '' : `Authorization: Bearer secret-${as}\r\n`
  await send(`POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorization}${head}\r\n\r\n`)
  return { socket, send, answer }
}
const ofLength = (length: number): string => `Content-Length: ${length}`

const asked = (as: string | null, bytes: number): RequestInit & { json: unknown } => ({
  headers: as === null ? {} : { authorization: `Bearer secret-${as}` },
  json: { model: 'policy', messages: [USER('Hi')], metadata: { filler: 'x'.repeat(bytes) } },
})
const ask = async ({ fetch }: Rig, as: string | null, bytes: number): Promise<number> => {
  const response = await fetch('/v1/chat/completions', asked(as, bytes))
  await response.arrayBuffer()
  return response.status
}

const started = async (t: TestContext, settings: Parameters<typeof startRig>[0] = {}) => {
  const rig = await startRig(settings)
  const uploads: Upload[] = []
  t.after(async () => {
    for (const { socket } of uploads) socket.destroy()
    await rig.stop()
  })
  const headers = { authorization: 'Bearer secret-cleo' }
  return {
    rig,
    uploads,
    async held(): Promise<number> {
      const text = await (await rig.fetch('/metrics', { headers })).text()
      return Number(/^instar_request_body_bytes (\d+)$/m.exec(text)?.[1])
    },
    async stalled(count: number, names: readonly (string | null)[], head: string, sent: string | Buffer) {
      for (let i = 0; i < count; i += 1) {
        const upload = await begin(rig, names[i % names.length]!, head)
        uploads.push(upload)
        await upload.send(sent)
      }
    },
  }
}

for (const count of [9, 100, 500])
  test(`${count} bodies of 32 MiB of two keys of which one byte came take no memory that another key needs`, async (t) => {
    const { rig, stalled, held } = await started(t, { settings: { keys: KEYS } })
    await stalled(count, ['anna', 'ben'], ofLength(32 * MIB), '{')
    assert.equal(await ask(rig, 'cleo', 100), 200)
    assert.equal(await ask(rig, 'cleo', 10 * MIB), 200)
    assert.deepEqual(await Promise.all([1, 2, 3, 4].map(() => ask(rig, 'cleo', 10 * MIB))), [200, 200, 200, 200])
    assert.ok((await held()) <= count * 16 * 1024, String(await held()))
  })

test('without keys a body that stalls takes no memory that an ordinary request needs, from the same address either', async (t) => {
  const { rig, stalled } = await started(t)
  await stalled(100, [null], ofLength(32 * MIB), '{')
  assert.equal(await ask(rig, null, 10 * MIB), 200)
})

const SMALL = { bodyLimit: MIB, bodiesLimit: 8 * MIB }

for (const count of [9, 100, 500])
  test(`${count} bodies of two keys that stall at nine tenths give way to requests of a third`, async (t) => {
    const { rig, stalled, held, uploads } = await started(t, { settings: { keys: KEYS, ...SMALL } })
    const most: number[] = []
    const flood = stalled(count, ['anna', 'ben'], ofLength(MIB), 'x'.repeat(0.9 * MIB))
    let over = false
    void flood.finally(() => {
      over = true
    })
    while (!over) {
      assert.equal(await ask(rig, 'cleo', 100), 200)
      assert.equal(await ask(rig, 'cleo', 0.3 * MIB), 200)
      most.push(await held())
    }
    await flood
    assert.equal(await ask(rig, 'cleo', 0.3 * MIB), 200)
    assert.ok(Math.max(...most) <= 8 * MIB, 'a bound on the memory of all')
    if (count === 9) return
    const answers = await Promise.race(uploads.map(({ answer }) => answer))
    assert.match(answers, /^HTTP\/1\.1 429 .*retry-after: 1\r\n.*"overloaded"/is)
  })

test('what one key holds is bounded while no other sends anything, and its smallest requests are answered', async (t) => {
  const { rig, stalled, held } = await started(t, { settings: { keys: KEYS, ...SMALL } })
  await stalled(20, ['anna'], ofLength(MIB), 'x'.repeat(0.9 * MIB))
  assert.equal(await ask(rig, 'anna', 100), 200)
  assert.ok((await held()) <= 4 * MIB, String(await held()))
})

test('without keys the largest body that stalls gives way to a request of the same address', async (t) => {
  const { rig, stalled, held } = await started(t, { settings: SMALL })
  await stalled(20, [null], ofLength(MIB), 'x'.repeat(0.9 * MIB))
  assert.equal(await ask(rig, null, 100), 200)
  assert.equal(await ask(rig, null, 0.3 * MIB), 200)
  assert.ok((await held()) <= 8 * MIB)
})

test('without a key a gateway with keys charges no body, however many are sent', async (t) => {
  const { rig, stalled, held, uploads } = await started(t, { settings: { keys: KEYS, ...SMALL } })
  await stalled(100, [null], ofLength(MIB), 'x'.repeat(100_000))
  for (const { answer } of uploads) assert.match(await answer, /^HTTP\/1\.1 401 /)
  assert.equal(await held(), 0)
  assert.equal(await ask(rig, 'cleo', 0.9 * MIB), 200)
})

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`

test('chunked and compressed bodies that stall give way too', async (t) => {
  const { rig, stalled, held } = await started(t, { settings: { keys: KEYS, ...SMALL } })
  await stalled(20, ['anna', 'ben'], 'Transfer-Encoding: chunked', chunk('x'.repeat(0.9 * MIB)))
  assert.equal(await ask(rig, 'cleo', 0.3 * MIB), 200)
  const params = { [constants.BROTLI_PARAM_QUALITY]: 1 }
  const packed = brotliCompressSync(Buffer.alloc(0.9 * MIB, 'x'), { params })
  const head = `${ofLength(packed.length + 1)}\r\nContent-Encoding: br`
  await stalled(20, ['anna', 'ben'], head, packed)
  assert.equal(await ask(rig, 'cleo', 0.3 * MIB), 200)
  assert.ok((await held()) <= 8 * MIB)
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test('chunks of one byte are held as the bytes that they are', async (t) => {
  const { rig, uploads, held } = await started(t, { settings: { keys: KEYS } })
  const upload = await begin(rig, 'anna', 'Transfer-Encoding: chunked')
  uploads.push(upload)
  const used = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = used()
  const bytes = 200_000
  await upload.send(chunk('x').repeat(bytes))
  while ((await held()) < bytes);
  const grown = used() - before
  assert.ok(grown < 20 * bytes, `${grown} bytes of heap for ${bytes}`)
})
