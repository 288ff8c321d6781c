/** A server that sends a byte now and then and never ends its response, beside one that answers. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test, type TestContext } from 'node:test'
import { model, USER } from '../kit/gateway.ts'
import { Line, QUICK, startRemoteRig, statusThat, type RemoteRig } from './rig.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import type { Seen } from './server.ts'

const TEXT = 'Hello there, how are you?'

class DrippingVllm extends ScriptedVllm {
  /** The paths whose responses do not end. */
  dripping: readonly string[] = []
  private readonly timers: NodeJS.Timeout[] = []

  protected override async answer(seen: Seen, response: ServerResponse): Promise<void> {
    if (!this.dripping.includes(seen.path)) return super.answer(seen, response)
    response.writeHead(200, { 'content-type': 'application/json' })
    this.timers.push(setInterval(() => response.write(' '), 20))
  }

  override kill(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer)
    return super.kill()
  }
}

const opened = async (
  t: TestContext,
  dripping: readonly string[][],
  options: Parameters<typeof startRemoteRig>[1] = {},
): Promise<{ servers: DrippingVllm[]; rig: RemoteRig }> => {
  const servers = await Promise.all(
    dripping.map(async (paths) => {
      const server = new DrippingVllm(model, { say: () => TEXT })
      server.dripping = paths
      return server.start()
    }),
  )
  let rig: RemoteRig | null = null
  t.after(async () => {
    await rig?.stop()
    for (const server of servers) await server.kill()
  })
  rig = await startRemoteRig(`vllm+${servers.map(({ url }) => `${url}/v1`).join(',')}`, options)
  return { servers, rig }
}

const said = async (rig: RemoteRig, what: RegExp): Promise<void> => {
  await statusThat(rig, () => rig.said.some((line) => what.test(line)))
}

test('a version is served when one replica has its adapter, and a rollback is followed, while another never ends its response', async (t) => {
  const {
    servers: [, server],
    rig,
  } = await opened(t, [[], []])
  server!.dripping = ['/v1/load_lora_adapter', '/v1/unload_lora_adapter']
  const line = new Line(rig)
  await line.start()
  await line.publishNext()
  await statusThat(rig, ({ serving, problem }) => serving === 1 && problem === null)
  for (let at = 0; at < 4; at += 1) {
    const response = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER('Hi')] },
      headers: { 'x-session-id': `s${at}` },
    })
    assert.deepEqual([response.status, response.headers.get('x-instar-version')], [200, '1'])
  }
  await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 2)
  await line.rollback(2, 1)
  await statusThat(rig, ({ serving }) => serving === 1)
})

test('a replica that does not end its response to a load in time is down until it loads, and then has the adapter', async (t) => {
  const {
    servers: [, server],
    rig,
  } = await opened(t, [[], []], { timeouts: { ...QUICK, jsonMs: 2000 } })
  server!.dripping = ['/v1/load_lora_adapter']
  const line = new Line(rig)
  await line.start()
  const adapter = await line.publishNext()
  await said(rig, /is down: .* did not end a response within 2000 ms/)
  server!.dripping = []
  await said(rig, /answers again/)
  assert.deepEqual([...server!.loaded.values()], [adapter.sha256])
})

test('the only replica does not end its response to a load: the status names the limit, and a rollback is followed', async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, [[]], { timeouts: { ...QUICK, jsonMs: 2000 } })
  const line = new Line(rig)
  await line.start()
  await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 1)
  server!.dripping = ['/v1/load_lora_adapter']
  await line.publishNext()
  const { problem } = await statusThat(rig, (status) => status.problem !== null)
  assert.match(problem!.message, /did not end a response within 2000 ms/)
  await line.rollback(2, 0)
  await statusThat(rig, (status) => status.serving === 0 && status.problem === null)
})

/** No request of this rig ends by a time limit of the engine's. */
const PATIENT = { timeouts: { ...QUICK, firstByteMs: 600_000, idleMs: 600_000, jsonMs: 600_000 } }

test('a request that waits for a load that does not end ends with its client', { timeout: 60_000 }, async (t) => {
  const {
    servers: [server],
    rig,
  } = await opened(t, [[]], PATIENT)
  const line = new Line(rig)
  await line.start()
  await line.publishNext()
  await statusThat(rig, ({ serving }) => serving === 1)
  server!.dripping = ['/v1/load_lora_adapter']
  const loads = (): number => server!.seen.filter(({ path }) => path === '/v1/load_lora_adapter').length
  const askAndLeave = async (model: string, until: () => boolean): Promise<void> => {
    const client = new AbortController()
    const asked = rig
      .fetch('/v1/chat/completions', { json: { model, messages: [USER('Hi')] }, signal: client.signal })
      .catch(() => undefined)
    await statusThat(rig, ({ requests }) => requests.running === 1 && until())
    client.abort()
    await asked
    await statusThat(rig, ({ requests }) => requests.running === 0)
  }
  const before = loads()
  // The engine has lost the adapter of the version that is served.
  server!.loaded.clear()
  await askAndLeave('policy', () => loads() === before + 1)
  // A version that is still being loaded.
  await line.publishNext()
  await statusThat(rig, () => loads() === before + 2)
  await line.rollback(2, 0)
  await statusThat(rig, ({ serving }) => serving === 0)
  await askAndLeave('policy@2', () => true)
})

test('a gateway starts with the replica that answers, and the other one is opened in the background', async (t) => {
  const {
    servers: [, server],
    rig,
  } = await opened(t, [[], ['/version']], { othersMs: 1, timeouts: { ...QUICK, jsonMs: 2000 } })
  assert.match(rig.line, /1 of 2 replicas/)
  server!.dripping = []
  await said(rig, /answers again/)
})

/** Sends events that are no part of an answer as fast as they are read, without end. */
class IdleTalk extends ScriptedVllm {
  asks = 0

  protected override async complete(seen: Seen, response: ServerResponse): Promise<void> {
    if (this.isProbe(seen.body)) return super.complete(seen, response)
    this.asks += 1
    const events = 'data: {"choices":[{"index":0,"text":"","token_ids":[],"finish_reason":null}]}\n\n'.repeat(1000)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    while (!response.destroyed) await new Promise<void>((resolve) => response.write(events, () => resolve()))
  }
}

test('an engine that sends events that are no part of an answer, without end, is given up', async (t) => {
  const server = await new IdleTalk(model, { say: () => TEXT }).start()
  const rig = await startRemoteRig(`vllm+${server.url}/v1`)
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')] },
    signal: AbortSignal.timeout(120_000),
  })
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  assert.deepEqual([response.status, error.code], [503, 'engine_lost'])
  assert.match(error.message, /more than 262144 events are no part of an answer/)
  assert.ok(server.asks > 0)
})
