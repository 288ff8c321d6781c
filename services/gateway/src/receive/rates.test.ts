/** Limits of requests, on every route, before their bodies are read. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { adminToken } from '@instar/process/admin-token'
import { newKey } from './key-file.ts'
import { feedbackOf, sha256, startRig, turnsOf, turnThat, USER, type Rig } from '../../../../test/kit/gateway.ts'

const MIB = 1024 * 1024
const token = (name: string): string => `secret-${name}`
const key = (name: string, more: object = {}) => ({
  id: name,
  sha256: sha256(Buffer.from(token(name))),
  scopes: ['inference' as const, 'feedback' as const, 'admin' as const, 'train' as const],
  ...more,
})
const as = (name: string): Record<string, string> => ({ authorization: `Bearer ${token(name)}` })
const HELLO = { model: 'policy', messages: [USER('Hi')] }
type Told = { status: number; code: string | undefined; retryAfter: string | null }
const told = async (response: Response): Promise<Told> => {
  const body = (await response.json()) as { error?: { code?: string } }
  return { status: response.status, code: body.error?.code, retryAfter: response.headers.get('retry-after') }
}

/** What a large body of which one byte came is charged. */
const FIRST = 16 * 1024

/** A request whose headers and first byte have arrived. */
const begin = async (rig: Rig, name: string, length: number): Promise<{ socket: Socket; answer: Promise<string> }> => {
  const { hostname, port } = new URL(rig.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  const answer = once(socket, 'data').then(([data]) => (data as Buffer).toString('latin1'))
  answer.catch(() => undefined)
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token(name)}\r\nContent-Length: ${length}\r\n\r\n`,
  )
  socket.write('{')
  return { socket, answer }
}

const heldBytes = async (rig: Rig, name: string): Promise<number> =>
  Number(
    /^instar_request_body_bytes (\d+)$/m.exec(await (await rig.fetch('/metrics', { headers: as(name) })).text())?.[1],
  )

test('after three requests a minute all routes but health and metrics are refused', async () => {
  let now = Date.now()
  const rig = await startRig({
    settings: { keys: [key('anna', { requestsPerMinute: 3 }), key('ops')] },
    ports: { now: () => now },
  })
  try {
    const spent = await Promise.all(
      [1, 2, 3].map(() => rig.fetch('/v1/chat/completions', { json: HELLO, headers: as('anna') })),
    )
    assert.deepEqual(
      spent.map(({ status }) => status),
      [200, 200, 200],
    )
    const turn = spent[0]!.headers.get('x-instar-turn-id')
    const before = (await turnsOf(rig.log)).length
    const calls: [string, object | undefined][] = [
      ['/v1/messages/count_tokens', HELLO],
      ['/submit_steps', { steps: [] }],
      ['/claim_episode', {}],
      ['/v1/feedback', { turn_id: turn, value: 1 }],
      ['/v1/chat/completions', HELLO],
      ['/generate', { prompt_ids: [1] }],
      ['/v1/sessions/x/close', {}],
      ['/v1/models', undefined],
      ['/openapi.json', undefined],
      ['/admin/status', undefined],
      ['/admin/thaw', {}],
      ['/v1/nothing', {}],
    ]
    for (const [path, json] of calls)
      assert.deepEqual(
        await told(await rig.fetch(path, { json, headers: as('anna') })),
        { status: 429, code: 'rate_limited', retryAfter: '20' },
        path,
      )
    assert.equal((await turnsOf(rig.log)).length, before)
    assert.deepEqual(await feedbackOf(rig.log), [])
    assert.deepEqual(
      [(await rig.fetch('/health/ready')).status, (await rig.fetch('/metrics', { headers: as('anna') })).status],
      [200, 200],
    )
    assert.equal((await rig.fetch('/v1/models', { headers: as('ops') })).status, 200, 'another key')
    now += 20_000
    assert.equal((await rig.fetch('/v1/models', { headers: as('anna') })).status, 200)
  } finally {
    await rig.stop()
  }
})

test('of twenty concurrent uploads of 31 MiB with one request left nineteen are refused before their bodies', async () => {
  const rig = await startRig({ settings: { keys: [key('anna', { concurrent: 1 }), key('ops')] } })
  const uploads: Socket[] = []
  try {
    const first = await begin(rig, 'anna', 31 * MIB)
    uploads.push(first.socket)
    while ((await heldBytes(rig, 'ops')) !== FIRST);
    const others = await Promise.all(Array.from({ length: 19 }, () => begin(rig, 'anna', 31 * MIB)))
    uploads.push(...others.map(({ socket }) => socket))
    for (const { answer } of others) assert.match(await answer, /^HTTP\/1\.1 429 .*retry-after: 1\r\n/is)
    assert.equal(await heldBytes(rig, 'ops'), FIRST)
    first.socket.destroy()
    while ((await heldBytes(rig, 'ops')) !== 0);
    assert.equal((await rig.fetch('/v1/chat/completions', { json: HELLO, headers: as('anna') })).status, 200)
  } finally {
    for (const socket of uploads) socket.destroy()
    await rig.stop()
  }
})

/** Answers that wait for `release`. */
const stuckAnswers = () => {
  const waiting: (() => void)[] = []
  let begun = 0
  let open = false
  const before = (): Promise<void> | undefined => {
    if (open) return undefined
    begun += 1
    return new Promise((resolve) => void waiting.push(resolve))
  }
  return {
    script: () => ({ text: 'Yes.', before }),
    async until(count: number): Promise<void> {
      while (begun < count) await new Promise(setImmediate)
    },
    release(): void {
      open = true
      for (const resolve of waiting.splice(0)) resolve()
    },
  }
}

test('the bodies of all requests stay within the memory limit, with a length, chunked or encoded', async () => {
  const { script, until, release } = stuckAnswers()
  const rig = await startRig({
    script,
    settings: {
      keys: ['anna', 'ben', 'cleo', 'dora', 'ops'].map((name) => key(name)),
      bodyLimit: MIB,
      bodiesLimit: 3 * MIB,
    },
  })
  try {
    const running: Promise<number>[] = []
    for (const [name, size] of [
      ['anna', 0.7],
      ['ben', 0.35],
      ['cleo', 0.2],
    ] as const) {
      const json = { ...HELLO, filler: 'x'.repeat(size * MIB) }
      running.push(rig.fetch('/v1/chat/completions', { json, headers: as(name) }).then(({ status }) => status))
      await until(running.length)
    }
    const large = JSON.stringify({ ...HELLO, filler: 'x'.repeat(300_000) })
    const refused = await told(
      await rig
        .fetch('/v1/messages', { json: { ...JSON.parse(large), max_tokens: 8 }, headers: as('dora') })
        .then(
          async (response) =>
            new Response(
              JSON.stringify({ error: { code: ((await response.json()) as { error: { type: string } }).error.type } }),
              { status: response.status, headers: response.headers },
            ),
        ),
    )
    assert.deepEqual(refused, { status: 429, code: 'rate_limit_error', retryAfter: '1' })
    const packed = await rig.fetch('/v1/chat/completions', {
      method: 'POST',
      body: gzipSync(large),
      headers: { ...as('dora'), 'content-encoding': 'gzip' },
    })
    assert.deepEqual(await told(packed), { status: 429, code: 'overloaded', retryAfter: '1' })
    const pieces = new ReadableStream({
      start: (out) => {
        out.enqueue(Buffer.from(large))
        out.close()
      },
    })
    const chunked = await rig.fetch('/v1/chat/completions', {
      method: 'POST',
      body: pieces,
      duplex: 'half',
      headers: as('dora'),
    } as RequestInit)
    assert.deepEqual(await told(chunked), { status: 429, code: 'overloaded', retryAfter: '1' })
    release()
    assert.deepEqual(await Promise.all(running), [200, 200, 200])
    while ((await heldBytes(rig, 'ops')) !== 0);
    for (const encoding of ['gzip', null]) {
      const body = encoding === null ? large : gzipSync(large)
      const headers = { ...as('dora'), ...(encoding === null ? {} : { 'content-encoding': encoding }) }
      assert.equal((await rig.fetch('/v1/chat/completions', { method: 'POST', body, headers })).status, 200)
    }
    while ((await heldBytes(rig, 'ops')) !== 0);
    assert.equal(
      (
        await told(
          await rig.fetch('/v1/chat/completions', { json: { ...HELLO, filler: 'x'.repeat(MIB) }, headers: as('dora') }),
        )
      ).status,
      413,
    )
  } finally {
    release()
    await rig.stop()
  }
})

test('a body counts with the memory that parsing needs, and a single body of text always fits', async () => {
  let waiting = 0
  const stuck = (_: number, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve) => {
      waiting += 1
      signal?.addEventListener('abort', () => resolve())
    })
  let blocked = true
  const rig = await startRig({
    script: () => (blocked ? { text: 'Yes.', before: stuck } : { text: 'Yes.' }),
    settings: { keys: ['anna', 'ben', 'cleo', 'ops'].map((name) => key(name)), bodyLimit: MIB, bodiesLimit: 3 * MIB },
  })
  const filled = (objects: number): object => ({ ...HELLO, filler: Array.from({ length: objects }, () => ({})) })
  const ask = (name: string, objects: number, signal?: AbortSignal): Promise<Response> =>
    rig.fetch('/v1/chat/completions', {
      json: filled(objects),
      headers: as(name),
      ...(signal ? { signal } : {}),
    })
  const leaving = new AbortController()
  try {
    const running: Promise<unknown>[] = []
    for (const [i, [name, objects]] of (
      [
        ['anna', 10_000],
        ['ben', 4_000],
      ] as const
    ).entries()) {
      // 30 KB, which take 1.3 MB when parsed; and less than what is then free.
      running.push(ask(name, objects, leaving.signal).catch(() => undefined))
      while (waiting <= i) await new Promise(setImmediate)
    }
    const held = await heldBytes(rig, 'ops')
    assert.ok(held > 14_000 * 130 && held < 3 * MIB, String(held))
    assert.deepEqual(await told(await ask('cleo', 10_000)), { status: 429, code: 'overloaded', retryAfter: '1' })
    assert.deepEqual(await told(await ask('anna', 10_000)), { status: 429, code: 'overloaded', retryAfter: '1' })
    leaving.abort()
    await Promise.all(running)
    while ((await heldBytes(rig, 'ops')) !== 0);
    blocked = false
    assert.equal((await told(await ask('cleo', 90_000))).code, 'body_too_large', 'twelve megabytes when it is parsed')
    const text = { ...HELLO, filler: 'é'.repeat(MIB / 2 - 1000) }
    assert.equal((await rig.fetch('/v1/chat/completions', { json: text, headers: as('cleo') })).status, 200)
    while ((await heldBytes(rig, 'ops')) !== 0);
  } finally {
    leaving.abort()
    await rig.stop()
  }
})

test('a chunked body that is not read counts until its request ends, also on routes without limits', async () => {
  const rig = await startRig({ settings: { keys: [key('anna'), key('ops')], bodyLimit: MIB, bodiesLimit: 2 * MIB } })
  const { hostname, port } = new URL(rig.url)
  const piece = `${MIB.toString(16)}\r\n${'x'.repeat(MIB)}\r\n0\r\n\r\n`
  try {
    for (const [method, path, status] of [
      ['GET', '/health/live', 200],
      ['HEAD', '/health/ready', 200],
      ['GET', '/metrics', 200],
      ['GET', '/v1/models', 200],
      ['GET', '/nowhere', 404],
    ] as const) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      socket.write(
        `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token('anna')}\r\nTransfer-Encoding: chunked\r\n\r\n${piece}`,
      )
      const [said] = (await once(socket, 'data')) as [Buffer]
      assert.match(said.toString('latin1'), new RegExp(`^HTTP/1\\.1 ${status} `), path)
      socket.destroy()
      await once(socket, 'close')
    }
    // The next request comes after the end of the last one.
    const deadline = AbortSignal.timeout(10_000)
    while ((await heldBytes(rig, 'ops')) !== 0) deadline.throwIfAborted()
  } finally {
    await rig.stop()
  }
})

test(
  'a chunked body that is too large is refused completely, also while it still arrives',
  { timeout: 20_000 },
  async () => {
    const rig = await startRig({ settings: { bodyLimit: 20_000 } })
    try {
      const { hostname, port } = new URL(rig.url)
      const socket = connect(Number(port), hostname)
      await once(socket, 'connect')
      const piece = `${(50_000).toString(16)}\r\n${'x'.repeat(50_000)}\r\n`
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n${piece.repeat(40)}0\r\n\r\n`,
      )
      let said = ''
      for await (const data of socket as AsyncIterable<Buffer>) said += data.toString('latin1')
      const [head = '', body = ''] = said.split('\r\n\r\n')
      assert.match(head, /^HTTP\/1\.1 413 /)
      assert.equal((JSON.parse(body) as { error: { code: string } }).error.code, 'body_too_large')
    } finally {
      await rig.stop()
    }
  },
)

const PIECE = `${(50_000).toString(16)}\r\n${'x'.repeat(50_000)}\r\n`
for (const [what, head, body] of [
  ['in pieces', 'GET /openapi.json HTTP/1.1\r\nTransfer-Encoding: chunked', `${PIECE.repeat(100)}0\r\n\r\n`],
  ['of a known length', 'GET /openapi.json HTTP/1.1\r\nContent-Length: 5000000', 'x'.repeat(5_000_000)],
  ['of a refused request', 'POST /v1/nothing HTTP/1.1\r\nContent-Length: 5000000', 'x'.repeat(5_000_000)],
] as const)
  test(
    `an answer that closes its connection arrives complete though the body was not read: one ${what}`,
    { timeout: 20_000 },
    async () => {
      const rig = await startRig()
      try {
        const { hostname, port } = new URL(rig.url)
        const socket = connect(Number(port), hostname)
        await once(socket, 'connect')
        socket.write(`${head}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n${body}`)
        let said = ''
        for await (const data of socket as AsyncIterable<Buffer>) said += data.toString('latin1')
        const [headers = '', answer = ''] = said.split('\r\n\r\n')
        assert.equal(answer.length, Number(/^content-length: (\d+)$/im.exec(headers)?.[1]))
      } finally {
        await rig.stop()
      }
    },
  )

test('a connection whose body does not end is answered and closed', { timeout: 20_000 }, async () => {
  const rig = await startRig()
  try {
    const { hostname, port } = new URL(rig.url)
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    await once(socket, 'connect')
    const closed = new Promise<void>((resolve) => {
      socket
        .on('error', () => undefined)
        .once('close', () => {
          resolve()
        })
    })
    socket.write(
      'GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 1000000000\r\n\r\n',
    )
    let heard = 0
    socket.on('data', ({ length }: Buffer) => {
      heard += length
    })
    await once(socket, 'end')
    assert.ok(heard > 1000)
    const drip = setInterval(() => socket.write('x'), 20)
    await closed
    clearInterval(drip)
  } finally {
    await rig.stop()
  }
})

test('a client that sends a wrong token and disconnects causes no internal error', { timeout: 20_000 }, async () => {
  const rig = await startRig({ settings: { keys: [key('anna')] } })
  try {
    const { hostname, port } = new URL(rig.url)
    const counted = async (name: string): Promise<number> => {
      const text = await (await rig.fetch('/metrics', { headers: as('anna') })).text()
      return text
        .split('\n')
        .filter((line) => line.startsWith(name))
        .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
    }
    for (let i = 0; i < 20; i += 1) {
      const socket = connect(Number(port), hostname)
      await once(socket, 'connect')
      socket.write(
        'POST /admin/promote HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 2\r\n\r\n{}',
      )
      socket.resetAndDestroy()
      await once(socket, 'close')
    }
    while ((await counted('instar_requests_total{route="/admin/:command"')) < 20);
    assert.equal(await counted('instar_request_errors_total{code="internal"}'), 0)
  } finally {
    await rig.stop()
  }
})

test('bytes a minute: a request larger than the rest is served, and the next one waits for the debt', async () => {
  let now = Date.now()
  const rig = await startRig({
    settings: { keys: [key('anna', { bytesPerMinute: 60_000 })] },
    ports: { now: () => now },
  })
  try {
    const send = async (bytes: number): Promise<Told> =>
      told(
        await rig.fetch('/v1/chat/completions', { json: { ...HELLO, filler: 'x'.repeat(bytes) }, headers: as('anna') }),
      )
    assert.equal((await send(59_000)).status, 200)
    assert.equal((await send(30_000)).status, 200)
    const waits = await send(10)
    assert.deepEqual([waits.status, waits.code], [429, 'rate_limited'])
    assert.ok(Number(waits.retryAfter) >= 29 && Number(waits.retryAfter) <= 30, String(waits.retryAfter))
    now += 30_000
    assert.equal((await send(10)).status, 200)
  } finally {
    await rig.stop()
  }
})

for (const late of [false, true])
  test(`bytes a minute: the chunked body of a GET counts, which nobody reads${late ? ', also after its answer' : ''}`, async () => {
    const rig = await startRig({ settings: { keys: [key('anna', { bytesPerMinute: 60_000 })] } })
    const { hostname, port } = new URL(rig.url)
    const socket = connect(Number(port), hostname)
    try {
      await once(socket, 'connect')
      const head = `Host: 127.0.0.1\r\nAuthorization: Bearer ${token('anna')}\r\n`
      const get = `GET /v1/models HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`
      const body = `${PIECE.repeat(2)}0\r\n\r\n`
      socket.write(late ? get : get + body)
      let said = String((await once(socket, 'data'))[0])
      assert.match(said, /^HTTP\/1\.1 200 /)
      socket.write(`${late ? body : ''}GET /v1/models HTTP/1.1\r\n${head}\r\n`)
      while (said.split('HTTP/1.1 ').length < 3) said += String((await once(socket, 'data'))[0])
      assert.match(said, /HTTP\/1\.1 429 /)
    } finally {
      socket.destroy()
      await rig.stop()
    }
  })

test('three hundred wrong keys are throttled, and known clients are not', async () => {
  let now = Date.now()
  const rig = await startRig({ settings: { keys: [key('anna'), key('new')] }, ports: { now: () => now } })
  const ask = async (bearer: string): Promise<Told> =>
    told(await rig.fetch('/v1/models', { headers: { authorization: `Bearer ${bearer}` } }))
  try {
    assert.equal((await ask(token('anna'))).status, 200)
    const codes: (string | undefined)[] = []
    for (let i = 0; i < 300; i += 1) codes.push((await ask(`guess-${i}`)).code)
    assert.equal(codes.filter((code) => code === 'invalid_api_key').length, 30)
    assert.equal(codes.filter((code) => code === 'rate_limited').length, 270)
    assert.equal((await ask(token('anna'))).status, 200)
    assert.equal((await ask(token('new'))).status, 429, 'a guess that is right is not told so')
    now += 2000
    assert.deepEqual(
      [(await ask(token('new'))).status, (await ask('one-more')).status, (await ask('two')).status],
      [200, 401, 429],
    )
  } finally {
    await rig.stop()
  }
})

test('a clock that is set back delays no revocation and locks out no limited key', async () => {
  let [wall, monotonic] = [Date.parse('2026-01-02T03:04:00.000Z'), 5000]
  const file = join(data, 'set-back.json')
  const stored = (name: string): object => ({
    id: name,
    sha256: sha256(Buffer.from(token(name))),
    created_at: new Date(wall).toISOString(),
    requests_per_minute: 1,
  })
  await writeFile(file, JSON.stringify({ keys: [stored('anna'), stored('other')] }))
  const rig = await startRig({
    settings: { keyFile: file, wrongKeysPerMinute: 1 },
    ports: { now: () => wall, monotonic: () => monotonic },
  })
  const ask = async (name: string): Promise<number> => (await rig.fetch('/v1/models', { headers: as(name) })).status
  try {
    assert.deepEqual([await ask('anna'), await ask('anna'), await ask('wrong'), await ask('bad')], [200, 429, 401, 429])
    wall -= 3_600_000
    monotonic += 60_000
    assert.deepEqual([await ask('anna'), await ask('wrong')], [200, 401])
    await writeFile(file, JSON.stringify({ keys: [stored('other')] }))
    monotonic += 60_000
    assert.deepEqual([await ask('other'), await ask('anna')], [200, 401])
  } finally {
    await rig.stop()
  }
})

test('wrong admin tokens are throttled as wrong keys are', async () => {
  const rig = await startRig({ settings: { wrongKeysPerMinute: 5 } })
  try {
    const codes: number[] = []
    for (let i = 0; i < 8; i += 1)
      codes.push(
        (
          await fetch(`${rig.url}/admin/freeze`, {
            method: 'POST',
            headers: { 'content-type': 'application/json', 'x-instar-admin-token': `guess ${i}` },
            body: '{}',
          })
        ).status,
      )
    assert.deepEqual(codes, [401, 401, 401, 401, 401, 429, 429, 429])
    assert.equal(
      (await fetch(`${rig.url}/v1/models`, { headers: { authorization: 'Bearer none' } })).status,
      200,
      'no command',
    )
  } finally {
    await rig.stop()
  }
})

test('wrong keys of an address keep no command with the token of the file out, and no key of random bytes', async () => {
  const adminTokenFile = join(data, 'kept-out', 'admin.token')
  const { key: made, token: random } = newKey(
    { name: 'b', scopes: ['inference'], expires_at: null, requests_per_minute: null, concurrent: null },
    Date.now(),
  )
  const keyed = { keys: [key('anna'), { id: made.id, sha256: made.sha256, scopes: ['inference' as const] }] }
  for (const settings of [{}, keyed]) {
    const rig = await startRig({ settings: { ...settings, adminToken: null, adminTokenFile, wrongKeysPerMinute: 5 } })
    const command = async (headers: Record<string, string>): Promise<number> =>
      (await fetch(`${rig.url}/admin/status`, { headers })).status
    try {
      for (let i = 0; i < 6; i += 1) await command({ 'x-instar-admin-token': `guess ${i}` })
      const guess = { 'x-instar-admin-token': `instar-admin-${'A'.repeat(43)}` }
      assert.equal(await command(guess), 429)
      assert.equal(await command({ 'x-instar-admin-token': adminToken(adminTokenFile) }), 200)
      assert.equal(await command(guess), 429)
      if (settings !== keyed) continue
      const models = async (bearer: string): Promise<number> =>
        (await rig.fetch('/v1/models', { headers: { authorization: `Bearer ${bearer}` } })).status
      assert.deepEqual([await models(token('anna')), await models(random)], [429, 200])
    } finally {
      await rig.stop()
    }
  }
})

test('of four hundred feedbacks on one turn sixteen count, and a comment of 10 MB is refused', async () => {
  const rig = await startRig()
  try {
    const session = { 'x-session-id': 'one' }
    const turn = (await rig.fetch('/v1/chat/completions', { json: HELLO, headers: session })).headers.get(
      'x-instar-turn-id',
    )
    const give = async (json: object, headers = {}): Promise<Told> =>
      told(await rig.fetch('/v1/feedback', { json: { value: 1, ...json }, headers }))
    for (const comment of ['x'.repeat(10 * MIB), 'x'.repeat(8193)])
      assert.ok([400, 413].includes((await give({ turn_id: turn, comment })).status))
    assert.deepEqual(await feedbackOf(rig.log), [])
    const first = { turn_id: turn, comment: 'x'.repeat(8192) }
    assert.equal((await give(first, { 'idempotency-key': 'first' })).status, 200)
    const many = await Promise.all(
      Array.from({ length: 400 }, (_, i) => give(i % 2 === 0 ? { turn_id: turn } : { session_id: 'one' })),
    )
    assert.equal(many.filter(({ status }) => status === 200).length, 15)
    assert.ok(many.every(({ status, code }) => status === 200 || code === 'feedback_full'))
    assert.equal((await feedbackOf(rig.log)).length, 16)
    assert.equal((await give(first, { 'idempotency-key': 'first' })).status, 200)
    assert.equal((await feedbackOf(rig.log)).length, 16)
    assert.equal((await give({ session_id: 'one' })).code, 'feedback_full')
    const next = (await rig.fetch('/v1/chat/completions', { json: HELLO, headers: session })).headers.get(
      'x-instar-turn-id',
    )
    assert.equal((await give({ turn_id: next })).status, 200)
  } finally {
    await rig.stop()
  }
})

const data = mkdtempSync(join(tmpdir(), 'instar-rates-'))
after(() => rmSync(data, { recursive: true, force: true }))

const ENDS: Readonly<Record<string, { path: string; body: object; last: (frames: string[]) => unknown }>> = {
  chat: {
    path: '/v1/chat/completions',
    body: HELLO,
    last: (frames) => (JSON.parse(frames.at(-2)!) as { error: { code: string } }).error.code,
  },
  responses: {
    path: '/v1/responses',
    body: { model: 'policy', input: 'Hi' },
    last: (frames) =>
      (JSON.parse(frames.at(-1)!) as { response: { error: { message: string } } }).response.error.message,
  },
  messages: {
    path: '/v1/messages',
    body: { ...HELLO, max_tokens: 100 },
    last: (frames) => (JSON.parse(frames.at(-1)!) as { error: { type: string } }).error.type,
  },
}

const ENDINGS = Object.entries(ENDS).flatMap(([dialect, one]) =>
  (['is revoked', 'expires'] as const).map((ending) => ({ dialect, ending, ...one })),
)

for (const { dialect, ending, path, body, last } of ENDINGS) {
  test(`a ${dialect} stream ends with an error of its dialect when its key ${ending}, and the turn holds the sent part`, async () => {
    const file = join(data, `${dialect} ${ending}.json`)
    let ahead = 0
    const now = (): number => Date.now() + ahead
    const stored = (name: string): object => ({
      id: name,
      sha256: sha256(Buffer.from(token(name))),
      created_at: new Date(now()).toISOString(),
      expires_at: name === 'anna' && ending === 'expires' ? new Date(now() + 60_000).toISOString() : null,
    })
    await writeFile(file, JSON.stringify({ keys: [stored('anna'), stored('other')] }))
    const stuck = (piece: number, signal: AbortSignal | undefined): Promise<void> =>
      piece < 5 || signal?.aborted
        ? Promise.resolve()
        : new Promise((resolve) => {
            signal?.addEventListener('abort', () => resolve())
          })
    const rig = await startRig({
      script: () => ({ text: 'One two three four five six seven eight nine ten.', before: stuck }),
      settings: { keyFile: file },
      ports: { now },
    })
    try {
      const response = await rig.fetch(path, { json: { ...body, stream: true }, headers: as('anna') })
      assert.equal(response.status, 200)
      let said = ''
      let begun = false
      for await (const piece of response.body!.pipeThrough(
        new TextDecoderStream(),
      ) as unknown as AsyncIterable<string>) {
        said += piece
        if (!begun && said.includes('two')) {
          begun = true
          if (ending === 'expires') ahead = 60_000
          else await writeFile(file, JSON.stringify({ keys: [stored('other')] }))
        }
      }
      const frames = said.split('\n').flatMap((line) => (line.startsWith('data: ') ? [line.slice(6)] : []))
      assert.ok(begun)
      assert.match(
        String(last(frames)),
        ending === 'expires'
          ? /^(invalid_api_key|authentication_error|The API key anna has expired\.)$/
          : /^(invalid_api_key|authentication_error|The API key anna was revoked\.)$/,
      )
      const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
      assert.deepEqual(
        [turn.key, turn.type === 'TurnAborted' && turn.why, turn.trainable],
        ['anna', 'client_gone', false],
      )
      assert.equal((await told(await rig.fetch('/v1/models', { headers: as('anna') }))).code, 'invalid_api_key')
      assert.equal((await rig.fetch('/v1/models', { headers: as('other') })).status, 200)
    } finally {
      await rig.stop()
    }
  })
}

const REQUESTS = ['limit', 'remaining', 'reset'] as const
const openAi = ({ headers }: Response): (string | null)[] =>
  REQUESTS.map((name) => headers.get(`x-ratelimit-${name}-requests`))
const anthropic = ({ headers }: Response): (string | null)[] =>
  REQUESTS.map((name) => headers.get(`anthropic-ratelimit-requests-${name}`))
const NONE = [null, null, null]

test('each answer to a key with limits has its rate-limit headers in the names of the dialect, refusals too', async () => {
  let now = Date.parse('2026-01-02T03:04:00.000Z')
  const rig = await startRig({
    settings: { keys: [key('anna', { requestsPerMinute: 3 }), key('ops')] },
    ports: { now: () => now },
  })
  try {
    const whole = await rig.fetch('/v1/chat/completions', { json: HELLO, headers: as('anna') })
    assert.deepEqual([whole.status, ...openAi(whole), ...anthropic(whole)], [200, '3', '2', '20s', ...NONE])
    const messages = await rig.fetch('/v1/messages', { json: { ...HELLO, max_tokens: 8 }, headers: as('anna') })
    assert.deepEqual(
      [messages.status, ...anthropic(messages), ...openAi(messages)],
      [200, '3', '1', '2026-01-02T03:04:40Z', ...NONE],
    )
    const stream = await rig.fetch('/v1/chat/completions', { json: { ...HELLO, stream: true }, headers: as('anna') })
    await stream.text()
    assert.deepEqual([stream.status, ...openAi(stream)], [200, '3', '0', '1m0s'])
    now += 500
    for (const path of ['/v1/chat/completions', '/v1/nothing', '/admin/thaw']) {
      const refused = await rig.fetch(path, { json: HELLO, headers: as('anna') })
      assert.deepEqual(
        [refused.status, refused.headers.get('retry-after'), ...openAi(refused)],
        [429, '20', '3', '0', '59.5s'],
        path,
      )
    }
    const refused = await rig.fetch('/v1/messages', { json: HELLO, headers: as('anna') })
    assert.deepEqual([refused.status, ...anthropic(refused)], [429, '3', '0', '2026-01-02T03:05:00Z'])
    assert.deepEqual(openAi(await rig.fetch('/v1/models', { headers: as('ops') })), NONE, 'no limit')
    assert.deepEqual(
      openAi(await rig.fetch('/v1/models', { headers: { authorization: 'Bearer guess' } })),
      NONE,
      'no key',
    )
    now += 19_500
    const missing = await rig.fetch('/v1/nothing', { json: HELLO, headers: as('anna') })
    assert.deepEqual([missing.status, ...openAi(missing)], [404, '3', '0', '1m0s'])
  } finally {
    await rig.stop()
  }
})
