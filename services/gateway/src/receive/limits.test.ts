/** Time limits over real sockets: requests that do not arrive, answers that do not end, clients that do not read. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { mintId } from '@instar/dialects'
import { openMemoryLog, type EventLog } from '@instar/log'
import type { GeneratedPiece, GenerateRequest } from '@instar/engine/port'
import { model, Publisher, sse, startRig, turnsOf, turnThat, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'

const open = async (rig: Rig): Promise<Socket> => {
  const { hostname, port } = new URL(rig.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}
/** All bytes until the other side closes. */
const said = async (socket: Socket): Promise<{ head: string; body: string }> => {
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n')
  return { head, body }
}
const post = (body: string, length = body.length): string =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
const codeOf = (body: string): string => (JSON.parse(body) as { error: { code: string } }).error.code

test('headers and bodies that exceed their time limit are refused', async () => {
  const rig = await startRig({ settings: { headersTimeoutMs: 150, requestTimeoutMs: 300 } })
  try {
    for (const [begun, limit] of [
      ['POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ', 150],
      [post('{"model":', 1000), 300],
    ] as const) {
      const socket = await open(rig)
      const from = performance.now()
      socket.write(begun)
      const { head, body } = await said(socket)
      assert.match(head, /^HTTP\/1\.1 408 Request Timeout/)
      assert.equal(codeOf(body), 'request_timeout')
      assert.ok(performance.now() - from >= limit - 10, String(performance.now() - from))
    }
    const socket = await open(rig)
    socket.write('nonsense\r\n\r\n')
    const { head, body } = await said(socket)
    assert.match(head, /^HTTP\/1\.1 400 Bad Request/)
    assert.equal(codeOf(body), 'bad_request')
    assert.deepEqual(await turnsOf(rig.log), [])
    assert.match(
      await (await rig.fetch('/metrics')).text(),
      /^instar_request_errors_total\{code="request_timeout"\} 2$/m,
    )
  } finally {
    await rig.stop()
  }
})

test('an answer that exceeds its time limit ends with an error, whole and streamed, and its turn is aborted', async () => {
  const stuck = (token: number, signal: AbortSignal | undefined): Promise<void> =>
    token < 3 || signal?.aborted
      ? Promise.resolve()
      : new Promise((resolve) => {
          signal?.addEventListener('abort', () => resolve())
        })
  const rig = await startRig({
    script: () => ({ text: 'It goes on and on.', before: stuck }),
    settings: { answerTimeoutMs: 200 },
  })
  try {
    const whole = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
    assert.deepEqual(
      [whole.status, whole.headers.get('x-should-retry'), codeOf(await whole.text())],
      [504, 'false', 'answer_timeout'],
    )
    const frames: string[] = []
    for await (const frame of sse(
      await rig.fetch('/v1/chat/completions', { json: { model: 'policy', stream: true, messages: [USER('Hi')] } }),
    ))
      frames.push(frame)
    assert.equal(codeOf(frames.find((frame) => frame.includes('"error"'))!), 'answer_timeout')
    const turns = await turnsOf(rig.log)
    assert.deepEqual(
      turns.map((turn) => turn.type === 'TurnAborted' && turn.why),
      ['engine_failed', 'engine_failed'],
    )
    assert.ok(turns.every((turn) => turn.finishedAt - turn.at >= 190))
  } finally {
    await rig.stop()
  }
})

test('a version that does not load within the time limit is not waited for', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const rig = await startRig({ log, settings: { answerTimeoutMs: 200 } })
  const loading = Promise.withResolvers<void>()
  try {
    rig.engine.beforeLoad = () => loading.promise
    await publisher.publish(0)
    const asked = async (): Promise<Response> => {
      for (;;) {
        const response = await rig.fetch('/v1/chat/completions', {
          json: { model: 'policy@1', messages: [USER('Hi')] },
        })
        if (response.status !== 404) return response
        await response.text()
      }
    }
    const response = await asked()
    assert.deepEqual([response.status, codeOf(await response.text())], [504, 'answer_timeout'])
    loading.resolve()
    assert.equal(
      (await rig.fetch('/v1/chat/completions', { json: { model: 'policy@1', messages: [USER('Hi')] } })).status,
      200,
    )
  } finally {
    loading.resolve()
    await rig.stop()
  }
})

test('waiting for a reference counts towards the time limit', async () => {
  let behind = false
  const log = openMemoryLog()
  const subscribe = log.subscribe.bind(log)
  Object.assign(log, {
    subscribe: async (...args: Parameters<EventLog['subscribe']>) => {
      const subscription = await subscribe(...args)
      const caughtUp = subscription.caughtUp.bind(subscription)
      return Object.assign(subscription, { caughtUp: () => (behind ? new Promise<void>(() => undefined) : caughtUp()) })
    },
  })
  const rig = await startRig({ log, settings: { answerTimeoutMs: 200, tailWaitMs: 2000 } })
  try {
    behind = true
    const response = await rig.fetch('/v1/responses', {
      json: {
        model: 'policy',
        input: 'Hi',
        previous_response_id: mintId('resp', 'elsewhere', `elsewhere.${'0'.repeat(32)}`),
      },
    })
    assert.deepEqual([response.status, codeOf(await response.text())], [504, 'answer_timeout'])
  } finally {
    behind = false
    await rig.stop()
  }
})

/** More than the kernel buffers on a connection that is not read. */
const PIECE = 'word '.repeat(40_000)
const PIECES = 150

class Flood extends ScriptedEngine {
  given = 0
  constructor() {
    super(model, () => '')
  }
  override async *generate(_request: GenerateRequest, signal?: AbortSignal): AsyncIterable<GeneratedPiece> {
    this.given = 0
    for (let i = 0; i < PIECES; i += 1) {
      signal?.throwIfAborted()
      this.given += 1
      yield { type: 'text', text: PIECE }
    }
    yield { type: 'end', reason: 'stop', text: '', counts: { promptTokens: 1, completionTokens: PIECES } }
  }
}

test('a client that does not read its stream is disconnected, and the turn holds the sent part', async () => {
  const engine = new Flood()
  const rig = await startRig({ engine, settings: { stalledMs: 300, pingMs: 100 } })
  try {
    const socket = await open(rig)
    socket.pause()
    socket.write(post(JSON.stringify({ model: 'policy', stream: true, messages: [USER('Hi')] })))
    const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
    assert.equal(turn.type === 'TurnAborted' && turn.why, 'client_gone')
    assert.ok(engine.given < PIECES, String(engine.given))
    socket.resume()
    if (!socket.closed) await once(socket, 'close')
  } finally {
    await rig.stop()
  }
})

test('a client that reads slowly receives the whole stream', async () => {
  const engine = new Flood()
  const rig = await startRig({ engine, settings: { stalledMs: 400, pingMs: 100 } })
  try {
    const socket = await open(rig)
    socket.write(post(JSON.stringify({ model: 'policy', stream: true, messages: [USER('Hi')] })))
    let bytes = 0
    let pauses = 0
    let tail = ''
    const ended = Promise.withResolvers<void>()
    socket.on('close', () => ended.reject(new Error(`cut off after ${bytes} bytes`)))
    socket.on('data', (data) => {
      bytes += data.length
      tail = (tail + data.toString('latin1')).slice(-40)
      if (tail.includes('[DONE]')) return ended.resolve()
      // Twelve pauses of half the limit: more in sum than a client may be silent.
      if (bytes > (pauses + 1) * 2_000_000 && pauses < 12) {
        pauses += 1
        socket.pause()
        setTimeout(() => socket.resume(), 150)
      }
    })
    await ended.promise
    assert.equal(pauses, 12)
    assert.ok(bytes > PIECE.length * PIECES)
    socket.destroy()
  } finally {
    await rig.stop()
  }
})

test('a client that does not read a whole answer is disconnected', async () => {
  const rig = await startRig({ engine: new Flood(), settings: { stalledMs: 300, pingMs: 100 } })
  try {
    const socket = await open(rig)
    socket.pause()
    socket.write(post(JSON.stringify({ model: 'policy', messages: [USER('Hi')] })))
    await turnThat(rig.log, ({ type }) => type === 'TurnCaptured')
    for (let told = ''; !told.includes('status="499"} 1');) told = await (await rig.fetch('/metrics')).text()
    socket.resume()
    if (!socket.closed) await once(socket, 'close')
    assert.ok(socket.bytesRead < PIECE.length * PIECES)
  } finally {
    await rig.stop()
  }
})

test('a connection whose response was read waits for its next request for the full keep-alive time', async () => {
  const rig = await startRig({ settings: { stalledMs: 50, pingMs: 20 } })
  try {
    const socket = await open(rig)
    const ask = async (): Promise<string> => {
      socket.write('GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
      const [data] = (await once(socket, 'data')) as [Buffer]
      return data.toString('latin1')
    }
    assert.match(await ask(), /^HTTP\/1\.1 200/)
    // Five times the limit for a silent reader.
    const { promise: later, resolve } = Promise.withResolvers<void>()
    setTimeout(resolve, 250)
    await later
    assert.match(await ask(), /^HTTP\/1\.1 200/)
    socket.destroy()
  } finally {
    await rig.stop()
  }
})
