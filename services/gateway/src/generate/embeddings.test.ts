/** Embeddings have the limits of an answer. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { GatewaySettings } from '@instar/gateway'
import { model, startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'

/**
 * A gateway whose engine answers an embedding of `bytes` once `release` is called. `begun`: resolves per request of the engine.
 */
const started = async (t: TestContext, settings: GatewaySettings, bytes = 0) => {
  const signals: AbortSignal[] = []
  let told: (() => void) | null = null
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const engine = Object.assign(new ScriptedEngine(model, () => 'Yes.'), {
    async embed(_bodyFor: unknown, signal?: AbortSignal, hold?: (bytes: number) => void): Promise<Uint8Array> {
      hold!(bytes)
      signals.push(signal!)
      told?.()
      await Promise.race([
        released,
        new Promise((_, reject) => signal!.addEventListener('abort', () => reject(signal!.reason as Error))),
      ])
      return Buffer.from(JSON.stringify({ object: 'list', data: [] }))
    },
  })
  const rig = await startRig({ engine, settings })
  t.after(() => rig.stop())
  const begun = async (count: number): Promise<void> => {
    while (signals.length < count)
      await new Promise<void>((resolve) => {
        told = resolve
      })
  }
  return { rig, signals, begun, release }
}
const ask = (rig: Rig, init: RequestInit = {}): Promise<Response> =>
  rig.fetch('/v1/embeddings', { json: { model: 'policy', input: 'Hi' }, ...init })
const told = async (response: Response): Promise<[number, string | undefined]> => [
  response.status,
  ((await response.json()) as { error?: { code?: string } }).error?.code,
]

test('embeddings wait in the queue of the engine: one more than it holds is refused, and so is a chat', async (t) => {
  const { rig, begun, release } = await started(t, { maxWaiting: 2 })
  const asked = [ask(rig), ask(rig)]
  await begun(2)
  assert.deepEqual(await told(await ask(rig)), [429, 'overloaded'])
  const chat = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
  assert.deepEqual(await told(chat), [429, 'overloaded'])
  release()
  assert.deepEqual(
    (await Promise.all(asked)).map(({ status }) => status),
    [200, 200],
  )
  assert.equal((await ask(rig)).status, 200)
})

test('an embedding that takes longer than an answer may ends with an error, and the engine is told', async (t) => {
  const { rig, signals } = await started(t, { answerTimeoutMs: 50 })
  assert.deepEqual(await told(await ask(rig)), [504, 'answer_timeout'])
  assert.ok(signals[0]!.aborted)
})

test('a client that disconnects ends its embedding at the engine', async (t) => {
  const { rig, signals, begun } = await started(t, {})
  const gone = new AbortController()
  const asked = ask(rig, { signal: gone.signal })
  await begun(1)
  const ended = new Promise<void>((resolve) => signals[0]!.addEventListener('abort', () => resolve()))
  gone.abort()
  await Promise.all([assert.rejects(asked), ended])
})

test('the memory of embeddings is counted with that of bodies, and one without room is refused', async (t) => {
  const { rig, begun, release } = await started(t, { bodyLimit: 1024, bodiesLimit: 1_000_000 }, 450_000)
  const held = async (): Promise<number> =>
    Number(/^instar_request_body_bytes (\d+)$/m.exec(await (await rig.fetch('/metrics')).text())![1])
  const first = ask(rig)
  await begun(1)
  const one = await held()
  assert.ok(one >= 450_000 && one < 460_000, String(one))
  assert.deepEqual(await told(await ask(rig)), [429, 'overloaded'])
  release()
  assert.equal((await first).status, 200)
  assert.equal(await held(), 0)
})
