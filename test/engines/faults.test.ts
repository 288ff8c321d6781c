import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { startRemote, textModel } from '@instar/engine'
import { isNeutral } from '@instar/policy'
import { gate } from '../kit/scripted-engine.ts'
import { model, sse, turnOf, turnsOf, turnThat, USER } from '../kit/gateway.ts'
import { Line, QUICK, startRemoteRig, statusThat, type RemoteRig } from './rig.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import { Cut, type Behaviour } from './server.ts'

const TEXT = 'Hello there, how are you?'
const PLAIN: Behaviour = { say: () => TEXT }

const opened = async (
  t: TestContext,
  count: number,
  options: Parameters<typeof startRemoteRig>[1] = {},
): Promise<{ servers: ScriptedVllm[]; rig: RemoteRig }> => {
  const servers = await Promise.all(Array.from({ length: count }, () => new ScriptedVllm(model, PLAIN).start()))
  const rig = await startRemoteRig(`vllm+${servers.map(({ url }) => `${url}/v1`).join(',')}`, options)
  t.after(async () => {
    await rig.stop()
    for (const server of servers) await server.kill()
  })
  return { servers, rig }
}

const chat = (rig: RemoteRig, body: object = {}, headers: Record<string, string> = {}): Promise<Response> =>
  rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')], ...body }, headers })
const textOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content
const count = (server: ScriptedVllm): number => server.asked('/v1/completions').length

test('a failure before the first token is retried, and the client does not see it', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  for (const trouble of [503, 500, 429, 'cut'] as const) {
    let left = 2
    server!.behaviour = {
      ...PLAIN,
      admit: () => {
        if (left === 0) return null
        left -= 1
        if (trouble === 'cut') throw new Cut()
        return trouble
      },
    }
    const before = count(server!)
    assert.equal(await textOf(await chat(rig)), TEXT, String(trouble))
    assert.equal(count(server!) - before, 3)
  }
  assert.deepEqual(
    (await turnsOf(rig.log)).map(({ type, tokens }) => [type, tokens]),
    Array.from({ length: 4 }, () => ['TurnCaptured', 'exact']),
  )
})

/** An engine that fails on every request with an error that quotes the prompt. */
const quoting = async (t: TestContext, inStream: boolean): Promise<RemoteRig> => {
  const server = createServer(async (request, response) => {
    const body: Buffer[] = []
    for await (const piece of request) body.push(piece as Buffer)
    if (request.method === 'GET') return void response.end(JSON.stringify({ data: [{ id: 'm' }] }))
    const error = JSON.stringify({ error: { message: `no memory for ${Buffer.concat(body).toString()}`, code: 500 } })
    return void (inStream
      ? response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${error}\n\n`)
      : response.writeHead(500).end(error))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const rig = await startRemoteRig(`openai+http://127.0.0.1:${port}/v1`, {
    model: textModel('policy'),
    retry: { roundMs: 1 },
  })
  t.after(async () => {
    await rig.stop()
    server.closeAllConnections()
    server.close()
  })
  return rig
}

for (const inStream of [false, true]) {
  test(`an engine failure ${inStream ? 'inside an answer' : 'by status'} that quotes the prompt is shown to its client only, not in logs, health or other answers`, async (t) => {
    const rig = await quoting(t, inStream)
    const asked = await chat(rig, { stream: inStream, messages: [USER('the plum stone')] })
    assert.match(await asked.text(), /plum stone/)
    for (let tries = 0; tries < 2; tries += 1)
      await (await chat(rig, { stream: inStream, messages: [USER('the plum stone')] })).text()
    const health = await rig.fetch('/health/ready')
    assert.equal(health.status, 503)
    assert.match(await health.text(), inStream ? /returned an error in a response/ : /returned 500/)
    const other = await chat(rig, { messages: [USER('Hi')] })
    const seen = [
      await (await rig.fetch('/health/ready')).text(),
      await (await rig.fetch('/admin/status')).text(),
      await other.text(),
      ...rig.said,
    ]
    assert.deepEqual(
      seen.filter((text) => text.includes('plum')),
      [],
    )
  })
}

test('an engine that stays busy gives 429 with Retry-After', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  server!.behaviour = { ...PLAIN, admit: () => 429 }
  const response = await chat(rig)
  assert.equal(response.status, 429)
  assert.ok(response.headers.get('retry-after'))
  assert.equal(((await response.json()) as { error: { code: string } }).error.code, 'overloaded')
  // A busy engine is not a failure: it is asked again at once.
  server!.behaviour = PLAIN
  assert.equal(await textOf(await chat(rig)), TEXT)
})

test('a step that the engine does not score: busy is 429, a failure 503, and nothing is recorded', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  const steps = [
    {
      trajectory_uid: 'one',
      policy_version: 0,
      prompt_ids: model.promptIds([USER('Hi')], {}),
      response_ids: model.encode(TEXT),
      rollout_log_probs: model.encode(TEXT).map(() => -1),
      metadata: { temperature: 1 },
    },
  ]
  for (const [trouble, status, code] of [
    [429, 429, 'overloaded'],
    [500, 503, 'engine_lost'],
    ['cut', 503, 'engine_lost'],
  ] as const) {
    server!.behaviour = {
      ...PLAIN,
      admitScore: () => {
        if (trouble === 'cut') throw new Cut()
        return trouble
      },
    }
    const response = await rig.fetch('/submit_steps', { json: { steps } })
    assert.deepEqual(
      [trouble, response.status, ((await response.json()) as { error: { code: string } }).error.code],
      [trouble, status, code],
    )
  }
  assert.deepEqual(await turnsOf(rig.log), [])
})

const DIALECTS = [
  ['/v1/chat/completions', { messages: [USER('Hi')] }, /"error":/, /\[DONE\]/],
  ['/v1/responses', { input: 'Hi' }, /response\.failed/, /response\.failed/],
  ['/v1/messages', { messages: [USER('Hi')], max_tokens: 50 }, /event: error/, /event: error/],
] as const

for (const [path, body, fault, end] of DIALECTS) {
  test(`${path}: a failure of the engine inside an answer ends the stream in the form of the dialect, and the sent part is on the log`, async (t) => {
    const {
      servers: [server],
      rig,
    } = await opened(t, 1)
    server!.behaviour = {
      ...PLAIN,
      before: (token) => {
        if (token === 4) throw new Cut()
      },
    }
    const response = await rig.fetch(path, { json: { model: 'policy', stream: true, ...body } })
    const text = await response.text()
    assert.match(text, fault)
    assert.match(text, end)
    const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
    assert.ok(turn.type === 'TurnAborted' && turn.why === 'engine_failed')
    assert.equal(turn.trainable, false)
    assert.ok(turn.ids.length > 0 && turn.ids.length < 4)
    assert.ok(TEXT.startsWith(Buffer.from(turn.text.bytes).toString()))
    assert.equal(count(server!), 1)
  })
}

test('a first token that exceeds its time limit is requested from another replica', async (t) => {
  const { servers, rig } = await opened(t, 2, { timeouts: { ...QUICK, firstByteMs: 150 } })
  const never = gate()
  t.after(never.open)
  const slow = servers.map((server) => {
    server.behaviour = {
      ...PLAIN,
      admit: async () => {
        for (const other of servers) if (other !== server) other.behaviour = PLAIN
        await never.passed
        return null
      },
    }
    return server
  })
  assert.equal(await textOf(await chat(rig)), TEXT)
  assert.deepEqual(slow.map(count), [1, 1])
})

test('connections are reused, and a client that disconnects ends the generation at the engine', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  const before = server!.connections
  for (let at = 0; at < 5; at += 1) assert.equal(await textOf(await chat(rig)), TEXT)
  assert.ok(server!.connections - before <= 1, `${server!.connections - before} new connections`)
  const hold = gate()
  t.after(hold.open)
  server!.behaviour = { ...PLAIN, before: (token) => (token === 3 ? hold.passed : undefined) }
  const control = new AbortController()
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], stream: true },
    signal: control.signal,
  })
  await sse(response).next()
  control.abort()
  const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
  assert.ok(turn.type === 'TurnAborted' && turn.why === 'client_gone')
  const until = Date.now() + 20_000
  while (server!.left === 0) {
    assert.ok(Date.now() < until)
    await new Promise((resolve) => {
      setTimeout(resolve, 10)
    })
  }
})

test('an engine that stays silent inside an answer is cut off after the time limit', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1, { timeouts: { ...QUICK, idleMs: 150 } })
  const never = gate()
  t.after(never.open)
  server!.behaviour = { ...PLAIN, before: (token) => (token === 3 ? never.passed : undefined) }
  const text = await (await chat(rig, { stream: true })).text()
  assert.match(text, /"error":/)
  assert.equal((await turnThat(rig.log, ({ type }) => type === 'TurnAborted')).ids.length, 2)
})

test('each session stays at one replica, and sessions are spread over replicas', async (t) => {
  const { servers, rig } = await opened(t, 2)
  const homes = new Map<string, number>()
  for (let session = 0; session < 12; session += 1) {
    for (let turn = 0; turn < 2; turn += 1) {
      const before = servers.map(count)
      await chat(rig, {}, { 'x-session-id': `s${session}` })
      const home = servers.findIndex((server, at) => count(server) > before[at]!)
      assert.equal(homes.get(`s${session}`) ?? home, home)
      homes.set(`s${session}`, home)
    }
  }
  assert.deepEqual(new Set(homes.values()), new Set([0, 1]))
})

test('sessions of a failed replica move to another one, and its adapters are loaded again after its return', async (t) => {
  const { servers, rig } = await opened(t, 2)
  const line = new Line(rig)
  await line.start()
  const adapter = await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 1)
  await said(rig, 'as well')
  assert.deepEqual(
    servers.map((server) => server.loaded.size),
    [1, 1],
  )
  const homeOf = async (): Promise<number> => {
    const before = servers.map(count)
    const response = await chat(rig, {}, { 'x-session-id': 'one' })
    assert.equal(await textOf(response), TEXT)
    assert.equal(response.headers.get('x-instar-version'), '1')
    return servers.findIndex((server, at) => count(server) > before[at]!)
  }
  const home = await homeOf()
  await servers[home]!.kill()
  servers[home]!.loaded.clear()
  assert.equal(await homeOf(), 1 - home)
  assert.equal(await homeOf(), 1 - home)
  assert.ok(rig.said.some((said) => said.includes('is down: ')))
  await servers[home]!.start()
  await said(rig, 'answers again')
  assert.equal(await homeOf(), home)
  assert.deepEqual([...servers[home]!.loaded.values()], [adapter.sha256])
})

const said = async (rig: RemoteRig, what: string): Promise<void> => {
  const until = Date.now() + 30_000
  while (!rig.said.some((one) => one.includes(what))) {
    assert.ok(Date.now() < until, rig.said.join('\n'))
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
  }
}

test('without a replica a request waits up to the time limit and then fails', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1, { retry: { waitMs: 100 } })
  await server!.kill()
  const response = await chat(rig)
  assert.equal(response.status, 503)
  assert.equal(((await response.json()) as { error: { code: string } }).error.code, 'engine_lost')
})

test('without a replica the gateway is not ready, and a waiting request is answered when one returns', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  await server!.kill()
  const held = chat(rig)
  await said(rig, 'is down: ')
  assert.deepEqual(
    [
      (await rig.fetch('/health/ready')).status,
      ((await (await rig.fetch('/health/ready')).json()) as { status: string }).status,
    ],
    [503, 'engine lost'],
  )
  await server!.start()
  assert.equal(await textOf(await held), TEXT)
  assert.equal((await rig.fetch('/health/ready')).status, 200)
})

test('a version that the engine loads and does not apply is refused, the one before it serves, and loading is retried', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  const line = new Line(rig)
  await line.start()
  server!.behaviour = { ...PLAIN, ignoresAdapters: true }
  await line.publishNext()
  const status = await statusThat(rig, ({ problem }) => problem !== null)
  assert.match(status.problem!.message, /its log-probs of given tokens are those of the base model/)
  assert.equal(status.serving, 0)
  assert.equal(server!.loaded.size, 0)
  assert.equal((await chat(rig)).headers.get('x-instar-version'), '0')
  server!.behaviour = PLAIN
  await statusThat(rig, ({ serving, problem }) => serving === 1 && problem === null)
})

test('the reason of an engine that refuses to load an adapter is in the status', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1)
  const line = new Line(rig)
  await line.start()
  server!.behaviour = { ...PLAIN, refusesLoad: 'LoRA rank 64 is greater than max_lora_rank 16.' }
  await line.publishNext()
  const status = await statusThat(rig, ({ problem }) => problem !== null)
  assert.match(status.problem!.message, /LoRA rank 64 is greater than max_lora_rank 16/)
  assert.equal(await textOf(await chat(rig)), TEXT)
})

test('during a rollback and three publications each stream keeps its version, and the oldest is unloaded after its last stream', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, 1, { settings: { keepVersions: 1 } })
  const line = new Line(rig)
  await line.start()
  await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 1)
  const hold = gate()
  server!.behaviour = { ...PLAIN, before: (token) => (token === 2 ? hold.passed : undefined) }
  const streams: { response: Response; lines: AsyncGenerator<string>; version: number }[] = []
  const begin = async (version: number): Promise<void> => {
    const response = await chat(rig, { stream: true })
    assert.equal(response.headers.get('x-instar-version'), String(version))
    const lines = sse(response)
    await lines.next()
    streams.push({ response, lines, version })
  }
  await begin(1)
  await begin(1)
  for (const version of [2, 3]) {
    await line.publishNext()
    await statusThat(rig, ({ serving }) => serving === version)
    await begin(version)
  }
  await line.rollback(3, 1)
  await statusThat(rig, ({ serving }) => serving === 1)
  await begin(1)
  assert.deepEqual(server!.loaded.size, 3)
  hold.open()
  for (const { response, lines, version } of streams) {
    let text = ''
    for await (const data of lines)
      if (data !== '[DONE]')
        text += (JSON.parse(data) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? ''
    assert.ok(TEXT.endsWith(text) && text.length > 5, text)
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.deepEqual([turn.type, turn.version, turn.tokens], ['TurnCaptured', version, 'exact'])
  }
  await statusThat(rig, ({ pool }) => pool.loaded.length === 2 && server!.loaded.size === 1)
  const asked = server!.asked('/v1/completions').map(({ body }) => body['model'])
  assert.equal(new Set(asked).size, 3)
  assert.equal(new Set(server!.loads).size, server!.loads.length, 'no name is loaded twice')
})

test('with log-probs before temperature a turn is exact at temperature 1 and captured only at other settings', async (t) => {
  const server = await new ScriptedVllm(model, { ...PLAIN, rawLogprobs: true }).start()
  const rig = await startRemoteRig(`vllm+${server.url}/v1`)
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  assert.match(
    rig.line,
    /exact log-probs at temperature 1 without top_p and top_k, other turns are captured but not trained on/,
  )
  const reasons = []
  for (const body of [{ temperature: 1 }, { temperature: 0.7 }, { temperature: 1, top_p: 0.5 }]) {
    const turn = await turnOf(rig.log, (await chat(rig, body)).headers.get('x-instar-turn-id'))
    reasons.push([turn.tokens, turn.reason])
  }
  assert.deepEqual(reasons, [
    ['exact', null],
    ['none', 'other_logprobs'],
    ['none', 'other_logprobs'],
  ])
})

test('a start fails where the tokenizer differs, replicas have different models, or no server answers', async (t) => {
  const one = await new ScriptedVllm(model, PLAIN).start()
  const other = await new ScriptedVllm(model, { ...PLAIN, offset: 2 }).start()
  const foreign = await new ScriptedVllm(
    { ...model, encode: (text) => [...text].map((letter) => letter.charCodeAt(0)) },
    PLAIN,
  ).start()
  t.after(() => Promise.all([one, other, foreign].map((server) => server.kill())))
  const start = (engine: string) =>
    startRemote({ engine, model, adapters: '/nowhere', isNeutral, timeouts: QUICK, startMs: 0 })
  await assert.rejects(start(`vllm+${foreign.url}/v1`), {
    code: 'engine_mismatch',
    message: /whose tokenizer is not that of tiny/,
  })
  await assert.rejects(start(`vllm+${one.url}/v1,${other.url}/v1`), {
    code: 'engine_mismatch',
    message: /do not serve one model/,
  })
  await one.kill()
  await assert.rejects(start(`vllm+${one.url}/v1`), { code: 'engine_lost' })
  await assert.rejects(start('vllm+not-an-address'), { code: 'bad_request' })
})
