import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { ERRORS } from '@instar/events'
import { gatewayConfig, createGateway } from '../app.ts'
import { openMemoryLog } from '@instar/log'
import { model, sha256, startRig, turnsOf, USER } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'

const LIMIT = 20_000
const rig = await startRig({ settings: { bodyLimit: LIMIT } })
after(() => rig.stop())

type Fault = { status: number; code: string; param: string | null; message: string; type: string }

const faultOf = async (response: Response): Promise<Fault> => {
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
  const { error } = (await response.json()) as { error: Fault }
  assert.ok(Object.hasOwn(ERRORS, error.code), `${error.code} is in the table`)
  assert.equal(response.status, ERRORS[error.code as keyof typeof ERRORS].status)
  return { ...error, status: response.status }
}

const post = async (body: string): Promise<Fault> =>
  faultOf(
    await rig.fetch('/v1/chat/completions', { method: 'POST', body, headers: { 'content-type': 'application/json' } }),
  )
const ask = (fields: object): Promise<Fault> =>
  post(JSON.stringify({ model: 'policy', messages: [USER('Hi')], ...fields }))

test('a body that is not a JSON object is refused', async () => {
  for (const body of ['', '{', '[1]', '"text"', 'null', '{"a":\u0001}'])
    assert.equal((await post(body)).code, 'bad_request', body)
})

test('JSON of 9000 levels is refused, and lone surrogates and control characters are accepted', async () => {
  const deep = (depth: number): string =>
    `{"model":"policy","messages":[{"role":"user","content":"Hi"}],"tools":[{"a":${'['.repeat(depth)}${']'.repeat(depth)}}]}`
  assert.equal((await post(deep(9000))).code, 'bad_request')
  const odd = await startRig()
  try {
    const answer = await odd.fetch('/v1/chat/completions', {
      method: 'POST',
      body: '{"messages":[{"role":"user","content":"a\\ud800b\\u0000c"}],"user":"\\u0000"}',
      headers: { 'x-session-id': 'tab\there' },
    })
    assert.equal(answer.status, 200)
    assert.match(answer.headers.get('x-instar-session-id')!, /^[0-9a-f]{32}$/)
  } finally {
    await odd.stop()
  }
})

test('encoded bodies are decoded; wrong, oversized and unknown encodings are refused', async () => {
  const own = await startRig({ settings: { bodyLimit: LIMIT } })
  const send = (body: Uint8Array, encoding: string): Promise<Response> =>
    own.fetch('/v1/chat/completions', {
      method: 'POST',
      body: new Uint8Array(body),
      headers: { 'content-encoding': encoding },
    })
  const json = Buffer.from(JSON.stringify({ model: 'policy', messages: [USER('Hello')] }))
  for (const [encoding, encode] of [
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
    ['deflate', deflateSync],
    ['zstd', zstdCompressSync],
  ] as const)
    assert.equal((await send(encode(json), encoding)).status, 200, encoding)
  assert.equal((await faultOf(await send(gzipSync(Buffer.alloc(LIMIT + 1, 32)), 'gzip'))).code, 'body_too_large')
  for (const unknown of ['compress', 'constructor', '__proto__'])
    assert.equal((await faultOf(await send(json, unknown))).param, 'content-encoding')
  assert.equal((await send(json, 'Identity')).status, 200)
  await own.stop()
  const fault = await faultOf(
    await rig.fetch('/v1/chat/completions', {
      method: 'POST',
      body: new Uint8Array([1]),
      headers: { 'content-encoding': 'gzip' },
    }),
  )
  assert.equal(fault.code, 'bad_request')
  assert.equal(fault.param, 'content-encoding')
})

test('an encoded body that is refused for its length cannot end the process when its decoding fails', async () => {
  for (const encoding of ['gzip', 'br', 'deflate', 'zstd']) {
    const fault = await faultOf(
      await rig.fetch('/v1/chat/completions', {
        method: 'POST',
        body: new Uint8Array(LIMIT + 1),
        headers: { 'content-encoding': encoding },
      }),
    )
    assert.equal(fault.code, 'body_too_large', encoding)
    assert.equal((await rig.fetch('/v1/models')).status, 200)
  }
})

test('unknown paths, an Expect header and a missing Host have errors of the gateway', async () => {
  const asked = async (line: string, ...headers: string[]): Promise<Fault> => {
    const socket = connect(Number(new URL(rig.url).port), '127.0.0.1')
    socket.write(`${line} HTTP/1.1\r\n${[...headers, 'connection: close'].join('\r\n')}\r\n\r\n`)
    const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n')
    return faultOf(
      new Response(body, {
        status: Number(head.split(' ')[1]),
        headers: { 'content-type': /content-type: (.*)/.exec(head)?.[1] ?? '' },
      }),
    )
  }
  assert.equal((await asked('GET /v1/models/%zz', 'host: 127.0.0.1')).param, 'path')
  assert.equal((await asked(`GET /v1/models/${'a'.repeat(600)}`, 'host: 127.0.0.1')).param, 'path')
  assert.equal((await asked('GET /v1/models')).param, 'host')
  assert.equal((await asked('GET /v1/nothing', 'host: 127.0.0.1', 'expect: much')).code, 'unknown_route')
})

test('a byte order mark is not part of the body, also in later readings', async () => {
  const own = await startRig()
  try {
    for (const said of ['Hi', 'And then?']) {
      const answer = await own.fetch('/v1/chat/completions', {
        method: 'POST',
        body: `\ufeff${JSON.stringify({ messages: [USER(said)], tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] })}`,
        headers: { 'x-session-id': 'one' },
      })
      assert.equal(answer.status, 200, await answer.text())
    }
  } finally {
    await own.stop()
  }
})

test('the header of dropped tools has printable characters alone, and tools that are nested too deeply are refused', async () => {
  const own = await startRig()
  try {
    for (const stream of [false, true]) {
      const answer = await own.fetch('/v1/responses', {
        json: { input: 'Hi', stream, tools: [{ type: 'x\r\nx-evil: größe' }] },
      })
      assert.deepEqual(
        [answer.status, answer.headers.get('x-instar-dropped-tools'), answer.headers.get('x-evil')],
        [200, 'x??x-evil: gr??e', null],
      )
      await answer.text()
      assert.equal(
        (
          await faultOf(
            await own.fetch('/v1/responses', {
              method: 'POST',
              body: `{"input":"Hi","stream":${stream},"tools":[{"type":"function","name":"f","parameters":{"a":${'['.repeat(6000)}${']'.repeat(6000)}}}]}`,
            }),
          )
        ).code,
        'bad_request',
      )
    }
    assert.equal((await turnsOf(own.log)).length, 2)
  } finally {
    await own.stop()
  }
})

const WRONG: [string, object, string][] = [
  ['messages absent', { messages: undefined }, 'messages'],
  ['messages empty', { messages: [] }, 'messages'],
  ['messages a text', { messages: 'Hi' }, 'messages'],
  ['a message a text', { messages: ['Hi'] }, 'messages[0]'],
  ['no role', { messages: [{ content: 'Hi' }] }, 'messages[0].role'],
  ['an unknown role', { messages: [{ role: 'king', content: 'Hi' }] }, 'messages[0].role'],
  ['content a number', { messages: [{ role: 'user', content: 3 }] }, 'messages[0].content'],
  ['user content null', { messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
  [
    'an image',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
    'messages[0].content[0]',
  ],
  ['tool_calls a text', { messages: [{ role: 'assistant', tool_calls: 'x' }] }, 'messages[0].tool_calls'],
  ['model a number', { model: 3 }, 'model'],
  ['stream a text', { stream: 'yes' }, 'stream'],
  ['n zero', { n: 0 }, 'n'],
  ['n 1.5', { n: 1.5 }, 'n'],
  ['temperature a text', { temperature: 'hot' }, 'temperature'],
  ['temperature 3', { temperature: 3 }, 'temperature'],
  ['top_p 0', { top_p: 0 }, 'top_p'],
  ['max_tokens 0', { max_tokens: 0 }, 'max_tokens'],
  ['seed 0.5', { seed: 0.5 }, 'seed'],
  ['stop a number', { stop: 1 }, 'stop'],
  ['stop empty', { stop: [''] }, 'stop'],
  ['tools an object', { tools: {} }, 'tools'],
  ['logprobs a number', { logprobs: 5 }, 'logprobs'],
  ['top_logprobs 50', { top_logprobs: 50 }, 'top_logprobs'],
  ['user a number', { user: 5 }, 'user'],
  ['stream_options a text', { stream_options: 'x' }, 'stream_options'],
]
for (const [name, fields, param] of WRONG) {
  test(`a wrong field is refused: ${name}`, async () => {
    const fault = await ask(fields)
    assert.equal(fault.code, 'bad_request')
    assert.equal(fault.type, 'invalid_request_error')
    assert.equal(fault.param, param)
  })
}

test('a number that is too large is refused with its upper limit', async () => {
  assert.equal(
    (await ask({ seed: 2 ** 53 })).message,
    `seed must be a whole number from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}.`,
  )
  assert.equal((await ask({ max_tokens: 0 })).message, 'max_tokens must be a whole number of at least 1.')
})

test('an unknown model and an unknown version are refused', async () => {
  for (const name of ['gpt-4', 'policy@', 'policy@x', 'policy@-1', 'policy~again'])
    assert.equal((await ask({ model: name })).code, 'model_not_found', name)
  const fault = await ask({ model: 'policy@9' })
  assert.equal(fault.code, 'unknown_version')
  assert.equal(fault.status, 404)
})

test('a prompt that fills the context is refused', async () => {
  const fault = await ask({ messages: [USER('word '.repeat(model.contextLength))] })
  assert.equal(fault.status, 400)
  assert.equal(fault.code, 'context_length_exceeded')
  assert.match(fault.message, new RegExp(`maximum context length is ${model.contextLength} tokens`))
  const [, given, most] = /prompt is too long: (\d+) tokens > (\d+) maximum/.exec(fault.message)!
  assert.ok(Number(given) > Number(most))
})

test('the same errors in streaming requests are plain responses', async () => {
  assert.equal((await ask({ stream: true, model: 'nope' })).status, 404)
  assert.equal((await ask({ stream: true, messages: [] })).status, 400)
})

test('a body over the limit is refused', async () => {
  const fault = await ask({ messages: [USER('x'.repeat(30_000))] })
  assert.equal(fault.status, 413)
  assert.equal(fault.code, 'body_too_large')
})

test('unknown routes and methods are refused', async () => {
  for (const path of ['/index.html', '/v1/nothing', '/v2/chat/completions'])
    assert.equal((await faultOf(await rig.fetch(path))).code, 'unknown_route', path)
  assert.equal((await faultOf(await rig.fetch('/v1/chat/completions'))).code, 'unknown_route')
  assert.equal((await faultOf(await rig.fetch('/admin/dance', { method: 'POST' }))).code, 'unknown_route')
})

test('the official client throws its own error classes', async () => {
  await assert.rejects(rig.client.chat.completions.create({ model: 'nope', messages: [USER('Hi')] }), {
    name: 'Error',
    status: 404,
    code: 'model_not_found',
  })
  await assert.rejects(rig.client.chat.completions.create({ model: 'policy', messages: [] }), {
    status: 400,
    code: 'bad_request',
    param: 'messages',
  })
})

test('requests beyond the queue are refused with Retry-After', async () => {
  rig.engine.waiting = 10_000
  try {
    for (const path of ['chat/completions', 'responses', 'messages']) {
      const response = await rig.fetch(`/v1/${path}`, {
        json: {
          model: 'policy',
          max_tokens: 8,
          ...(path === 'responses' ? { input: 'Hi' } : { messages: [USER('Hi')] }),
        },
      })
      assert.deepEqual([response.status, response.headers.get('retry-after')], [429, '1'])
      const fault = await faultOf(response)
      assert.deepEqual([fault.code, fault.type], ['overloaded', 'rate_limit_error'], path)
    }
  } finally {
    rig.engine.waiting = 0
  }
})

test('refused requests leave nothing on the log', async () => {
  assert.deepEqual(await turnsOf(rig.log), [])
})

/** fetch cannot set Host. */
const withHost = (url: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    request({ hostname, port, path: '/v1/models', headers }, (response) => {
      response.resume()
      resolve(response.statusCode!)
    })
      .on('error', reject)
      .end()
  })

test('without keys a foreign Host or Origin is refused', async () => {
  for (const host of ['localhost', '127.0.0.1', '127.0.0.1:30000', '[::1]:80', 'app.localhost'])
    assert.equal(await withHost(rig.url, { host }), 200, host)
  for (const host of ['evil.example', '127.0.0.1.evil.example', 'gateway', '10.0.0.3', 'localhost@evil.example'])
    assert.equal(await withHost(rig.url, { host }), 403, host)
  assert.equal(await withHost(rig.url, { origin: rig.url }), 200)
  for (const origin of ['http://evil.example', 'null', 'https://localhost.evil.example', 'file://'])
    assert.equal(await withHost(rig.url, { origin }), 403, origin)
})

test('an open gateway accepts addresses and names without a dot, and no foreign sites', async () => {
  const open = await startRig({ settings: { open: true, allowedHosts: ['models.example'] } })
  try {
    for (const host of ['gateway:30000', '10.0.0.3', 'models.example'])
      assert.equal(await withHost(open.url, { host }), 200, host)
    for (const host of ['evil.example']) assert.equal(await withHost(open.url, { host }), 403, host)
    assert.equal(await withHost(open.url, { origin: 'https://evil.example' }), 403)
  } finally {
    await open.stop()
  }
})

test('a bind beyond loopback without keys requires the setting', async () => {
  const gateway = createGateway(
    {
      log: openMemoryLog(),
      engine: new ScriptedEngine(model, () => ''),
      model,
      now: Date.now,
      random: (bytes) => new Uint8Array(bytes),
    },
    gatewayConfig({ host: '0.0.0.0', port: 0 }),
  )
  await assert.rejects(gateway.start(), { code: 'open_bind' })
})

test('a port in use is an error', async () => {
  await assert.rejects(startRig({ settings: { port: Number(new URL(rig.url).port) } }), { code: 'address_in_use' })
})

test('with keys a request needs one, sessions belong to keys, and commands need an admin key', async () => {
  const keys = [
    { id: 'anna', sha256: sha256(Buffer.from('secret-a')) },
    {
      id: 'ops',
      sha256: sha256(Buffer.from('secret-o')),
      scopes: ['inference' as const, 'feedback' as const, 'admin' as const],
    },
  ]
  const keyed = await startRig({ settings: { keys } })
  try {
    const call = (path: string, key: string | null, json?: unknown) =>
      keyed.fetch(path, {
        json,
        headers: { ...(key === null ? {} : { authorization: `Bearer ${key}` }), 'x-session-id': 'one' },
      })
    assert.equal((await faultOf(await call('/v1/models', null))).code, 'invalid_api_key')
    assert.equal((await faultOf(await call('/v1/models', 'wrong'))).status, 401)
    assert.equal((await keyed.fetch('/health/ready')).status, 200)
    assert.equal((await faultOf(await call('/admin/status', 'secret-a'))).code, 'missing_scope')
    assert.equal((await call('/admin/status', 'secret-o')).status, 200)
    const body = { model: 'policy', messages: [USER('Hi')] }
    const [a, b] = [
      await call('/v1/chat/completions', 'secret-a', body),
      await call('/v1/chat/completions', 'secret-o', body),
    ]
    assert.equal(a.headers.get('x-instar-session-id'), 'anna_one')
    assert.equal(b.headers.get('x-instar-session-id'), 'ops_one')
    assert.equal(
      (await faultOf(await call('/v1/feedback', 'secret-o', { turn_id: a.headers.get('x-instar-turn-id'), value: 1 })))
        .code,
      'unknown_turn',
    )
    const [turn] = await turnsOf(keyed.log)
    assert.equal(turn!.key, 'anna')
  } finally {
    await keyed.stop()
  }
})
