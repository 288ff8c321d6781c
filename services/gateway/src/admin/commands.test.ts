/** Long commands: heartbeats during silence, a client that disconnects, a log that fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as immediate } from 'node:timers/promises'
import { InstarError } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { COMMANDING, sse, startRig, USER, withAppend } from '../../../../test/kit/gateway.ts'
import { gate } from '../../../../test/kit/scripted-engine.ts'

const LINES = { ...COMMANDING, accept: 'application/x-ndjson' }
const send = (url: string, command: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${url}/admin/${command}`, { method: 'POST', headers: LINES, body: '{"branch":"b"}', ...init })

/** Lines as they arrive. */
async function* lines(response: Response): AsyncGenerator<unknown> {
  let rest = ''
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    const whole = (rest + piece).split('\n')
    rest = whole.pop()!
    for (const line of whole) yield JSON.parse(line)
  }
}

const all = async (said: AsyncGenerator<unknown>): Promise<unknown[]> => {
  const values: unknown[] = []
  for await (const value of said) values.push(value)
  return values
}

test('a replay and a promotion send heartbeats during silence, then their answer', { timeout: 20_000 }, async () => {
  const go = gate()
  const rig = await startRig({
    settings: { pingMs: 10 },
    ports: {
      replay: async function* () {
        yield { done: 1 }
        await go.passed
        yield { done: 2 }
      },
      promote: async () => {
        await go.passed
        throw new InstarError('unknown_branch', 'There is no such branch.')
      },
    },
  })
  try {
    const replay = lines(await send(rig.url, 'replay'))
    const promotion = lines(await send(rig.url, 'promote'))
    assert.deepEqual((await replay.next()).value, { done: 1 })
    for (let i = 0; i < 3; i += 1)
      assert.deepEqual(
        [(await replay.next()).value, (await promotion.next()).value],
        [{ heartbeat: true }, { heartbeat: true }],
      )
    go.open()
    const rest = async (said: AsyncGenerator<unknown>): Promise<unknown[]> =>
      (await all(said)).filter((line) => !(line as { heartbeat?: true }).heartbeat)
    assert.deepEqual(await rest(replay), [{ done: 2 }])
    assert.deepEqual(await rest(promotion), [
      {
        error: {
          message: 'There is no such branch.',
          type: 'invalid_request_error',
          param: null,
          code: 'unknown_branch',
        },
      },
    ])
    const plain = await send(rig.url, 'promote', { headers: COMMANDING })
    assert.equal(plain.status, 404, 'who does not ask for lines gets a status')
  } finally {
    await rig.stop()
  }
})

for (const waits of [true, false]) {
  test(
    `a client that disconnects ends its replay, ${waits ? 'while the next line is awaited' : 'while lines are written'}`,
    { timeout: 20_000 },
    async () => {
      const returned = Promise.withResolvers<void>()
      let [asked, given] = [0, null as AbortSignal | null]
      const replay = (_: unknown, gone: AbortSignal): AsyncIterable<unknown> => {
        given = gone
        return {
          [Symbol.asyncIterator]: () => ({
            async next() {
              asked += 1
              if (waits && asked > 1) await new Promise<never>(() => undefined)
              await new Promise(setImmediate)
              return { done: false, value: { done: asked, filler: 'x'.repeat(1000) } }
            },
            async return() {
              returned.resolve()
              return { done: true, value: undefined }
            },
          }),
        }
      }
      const rig = await startRig({ ports: { replay } })
      try {
        const left = new AbortController()
        const said = lines(await send(rig.url, 'replay', { signal: left.signal }))
        assert.equal(((await said.next()).value as { done: number }).done, 1)
        left.abort()
        await returned.promise
        assert.ok((given as AbortSignal | null)?.aborted)
        await assert.rejects(said.next())
        const after = asked
        await rig.fetch('/health/live')
        assert.ok(asked <= after + 1, 'nothing more is asked of it')
      } finally {
        await rig.stop()
      }
    },
  )
}

test('a replay that is read to its end is not aborted', async () => {
  let aborted = false
  const rig = await startRig({
    ports: {
      replay: async function* (_, gone) {
        gone.addEventListener('abort', () => {
          aborted = true
        })
        yield { report: 1 }
      },
    },
  })
  try {
    assert.deepEqual(await all(lines(await send(rig.url, 'replay'))), [{ report: 1 }])
    await rig.fetch('/health/live')
    assert.equal(aborted, false)
  } finally {
    await rig.stop()
  }
})

const readiness = async (url: string): Promise<[number, string]> => {
  const response = await fetch(`${url}/health/ready`)
  return [response.status, ((await response.json()) as { status: string }).status]
}

test('after a write error of the log the answer ends in an error, the gateway is not ready, and its process is notified', async () => {
  const fatal = Promise.withResolvers<Error>()
  const log = withAppend(openMemoryLog(), () =>
    Promise.reject(new InstarError('log_broken', 'the log cannot be written any more: disk I/O error')),
  )
  const rig = await startRig({ log, ports: { onFatal: fatal.resolve }, settings: { appendPatienceMs: 60_000 } })
  try {
    assert.deepEqual(await readiness(rig.url), [200, 'ready'])
    const said: string[] = []
    for await (const line of sse(
      await rig.fetch('/v1/chat/completions', { json: { model: 'policy', stream: true, messages: [USER('Hi')] } }),
    ))
      said.push(line)
    assert.equal((JSON.parse(said.at(-2)!) as { error: { code: string } }).error.code, 'log_broken')
    assert.equal(((await fatal.promise) as InstarError).code, 'log_broken')
    assert.deepEqual(await readiness(rig.url), [503, 'log broken'])
    const refused = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
    assert.deepEqual([refused.status, refused.headers.get('x-should-retry')], [503, 'false'])
  } finally {
    await rig.stop()
  }
})

test('while the log refuses writes the gateway is not ready, and its process is not notified', async () => {
  let [clock, full] = [1000, true]
  const log = withAppend(openMemoryLog(), (_, next) =>
    full ? Promise.reject(new InstarError('log_unavailable', 'away')) : next(),
  )
  const rig = await startRig({
    log,
    ports: { now: () => clock, onFatal: assert.fail },
    settings: { appendPatienceMs: 0 },
  })
  try {
    const ask = async (): Promise<number> =>
      (await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })).status
    assert.equal(await ask(), 503)
    assert.deepEqual(await readiness(rig.url), [503, 'log not taking'])
    full = false
    clock += 1001
    // It probes once a second.
    while ((await readiness(rig.url))[0] !== 200) await immediate()
    assert.equal(await ask(), 200)
  } finally {
    await rig.stop()
  }
})

test('feedback that names a turn and another session is refused and not on the log', async () => {
  const rig = await startRig()
  try {
    const answer = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER('Hi')] },
      headers: { 'x-session-id': 'mine' },
    })
    const turn = answer.headers.get('x-instar-turn-id')
    const give = async (session: string) =>
      rig.fetch('/v1/feedback', { json: { turn_id: turn, session_id: session, value: true } })
    const refused = await give('other')
    assert.equal(refused.status, 400)
    assert.equal(((await refused.json()) as { error: { param: string } }).error.param, 'session_id')
    const taken = await give('mine')
    assert.deepEqual([taken.status, ((await taken.json()) as { turn_id: string }).turn_id], [200, turn])
  } finally {
    await rig.stop()
  }
})
