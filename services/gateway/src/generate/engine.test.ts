/** The gateway with the real engine on a random model, and the log on disk. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Worker } from 'node:worker_threads'
import {
  decodeRecord,
  encodeEvent,
  schemaTexts,
  type LineStarted,
  type TurnCaptured,
  type VersionPublished,
} from '@instar/events'
import { createGateway, gatewayConfig, type Gateway } from '../app.ts'
import { createTurnReader, openEmbeddedLog, putBlob, type EmbeddedLog } from '@instar/log'
import type { Model, ServingEngine } from '@instar/engine/port'
import { openModel, startServing } from '@instar/policy'
import { randomAdapter, writeRandomModel } from '../../../../test/kit/random-model.ts'
import { crash, latest, spoken, started, threads } from '../../../../test/kit/threads.ts'
import { sse, turnOf, turnThat, USER } from '../../../../test/kit/gateway.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'instar-gateway-'))
const adapters = [1, 2].map((seed) => randomAdapter(seed))
let model: Model
let engine: ServingEngine
let modelThread: Worker
let log: EmbeddedLog
let gateway: Gateway
let url: string

const open = async (): Promise<void> => {
  log = await openEmbeddedLog({ folder: path.join(folder, 'log'), schemas: schemaTexts() })
  gateway = createGateway(
    { log, engine, model, now: Date.now, random: (bytes) => randomBytes(bytes) },
    gatewayConfig({ port: 0 }),
  )
  url = (await gateway.start()).url
}

before(async () => {
  writeRandomModel(path.join(folder, 'model'))
  model = await openModel(path.join(folder, 'model'))
  engine = await startServing({ model: path.join(folder, 'model'), rows: 4, slots: 2, threads: 1 })
  modelThread = latest()
  await open()
})
after(async () => {
  await gateway.stop()
  await engine.close()
  await log.close()
  rmSync(folder, { recursive: true, force: true })
})

type Message = { role: string; content: string }

const ask = async (
  messages: Message[],
  body: object = {},
): Promise<{ text: string; version: string | null; turn: TurnCaptured }> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'policy', messages, stream: true, max_tokens: 12, ...body }),
  })
  let text = ''
  for await (const line of sse(response)) if (line !== '[DONE]') text += JSON.parse(line).choices[0].delta.content ?? ''
  const turn = await turnOf(log, response.headers.get('x-instar-turn-id'))
  assert.ok(turn.type === 'TurnCaptured')
  return { text, version: response.headers.get('x-instar-version'), turn }
}

let prev = ''
const append = async (event: LineStarted | VersionPublished): Promise<void> => {
  const { id, ...record } = encodeEvent(event)
  await log.append([record])
  prev = id
}

const publish = async (number: number): Promise<void> => {
  const adapter = adapters[number - 1]!
  const blobsAt = Date.now()
  await putBlob(log, adapter.weights, blobsAt)
  await append({
    type: 'VersionPublished',
    prev,
    policy: 'policy',
    number,
    update: `u${number}`,
    adapter: adapter.sha256,
    adapterBytes: adapter.weights.length,
    state: 's',
    blobsAt,
    parent: number - 1,
    why: 'update',
    source: null,
    figures: {},
    at: Date.now(),
  })
}

test('score gives the log-probs that are on the log, and prompts extend each other over versions', async () => {
  await append({
    type: 'LineStarted',
    prev: '',
    policy: 'policy',
    mode: 'live',
    base: { name: 'random', sha256: model.sha256 },
    parent: null,
    settings: {},
    at: Date.now(),
  })
  const messages: Message[] = [USER('Hi')]
  const turns: TurnCaptured[] = []
  for (let number = 0; number < 3; number += 1) {
    if (number > 0) {
      await publish(number)
      const until = Date.now() + 1000
      while (((await (await fetch(`${url}/admin/status`)).json()) as { serving: number }).serving !== number)
        assert.ok(Date.now() < until, 'served within a second')
    }
    const { text, turn, version } = await ask(messages)
    assert.equal(version, String(number))
    assert.equal(turn.adapter, number === 0 ? null : adapters[number - 1]!.sha256)
    assert.equal(turn.labelSource, number === 0 ? 'fingerprint' : 'answer')
    assert.equal(turn.offPrefix, false)
    assert.equal(text, Buffer.from(turn.text.bytes).toString('utf8'))
    turns.push(turn)
    messages.push({ role: 'assistant', content: text }, USER(`And ${number}?`))
  }
  assert.equal(new Set(turns.map(({ session }) => session)).size, 1)
  const places = new Map<string, { partition: number; offset: number }>()
  for await (const batch of log.read('turns')) {
    for (const record of batch) {
      const { event } = decodeRecord(record)
      if (event.type === 'TurnCaptured') places.set(event.turn, record)
    }
  }
  const reader = createTurnReader(log, (turn) => places.get(turn))
  let earlier: number[] = []
  for (const turn of turns) {
    const prompt = await reader.promptIds(turn.turn)
    assert.deepEqual(prompt.slice(0, earlier.length), earlier)
    const scored = await engine.score({
      prompt,
      completion: turn.ids,
      adapter: turn.adapter,
      temperature: turn.sampling.temperature,
    })
    for (const [i, logprob] of turn.logprobs.entries())
      assert.ok(Math.abs(scored[i]! - logprob) < 1e-3, `${scored[i]} and ${logprob}`)
    earlier = [...prompt, ...turn.ids]
  }
})

test('a pinned version and a seed repeat an answer, and the head gives another one', async () => {
  const [a, b, c] = [
    await ask([USER('Say')], { model: 'policy@1', seed: 11 }),
    await ask([USER('Say')], { model: 'policy@1', seed: 11 }),
    await ask([USER('Say')], { seed: 11 }),
  ]
  assert.equal(a.version, '1')
  assert.deepEqual(a.turn.ids, b.turn.ids)
  assert.equal(c.version, '2')
  assert.notDeepEqual(a.turn.ids, c.turn.ids)
})

test('a client that disconnects frees the engine', async () => {
  const controller = new AbortController()
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    signal: controller.signal,
    body: JSON.stringify({ model: 'policy', messages: [USER('Go on')], stream: true, max_tokens: 240, logit_bias: {} }),
  })
  const lines = sse(response)
  await lines.next()
  await lines.next()
  controller.abort()
  const id = response.headers.get('x-instar-turn-id')
  const turn = await turnThat(log, (event) => event.turn === id)
  if (turn.type === 'TurnAborted') {
    assert.equal(turn.why, 'client_gone')
    assert.ok(turn.ids.length > 0 && turn.ids.length < 240)
  }
  assert.equal(engine.pending().running, 0)
})

test('while the thread of the model restarts the gateway is not ready, and afterwards it has its versions', async () => {
  const before = await ask([USER('Say')], { seed: 11 })
  const health = async (): Promise<[number, string]> => {
    const response = await fetch(`${url}/health/ready`)
    return [response.status, ((await response.json()) as { status: string }).status]
  }
  const count = threads.length
  await crash(modelThread)
  assert.deepEqual(await health(), [503, 'engine lost'])
  await started(count + 1)
  await spoken()
  assert.deepEqual(await health(), [200, 'ready'])
  const after = await ask([USER('Say')], { seed: 11 })
  assert.equal(after.version, '2')
  assert.deepEqual(after.turn.ids, before.turn.ids)
})

test('a restart on the same log keeps head and sessions', async () => {
  const one = await ask([USER('Remember')], { stop: ['zzz'] })
  await gateway.stop()
  await log.close()
  await open()
  const two = await ask([USER('Remember'), { role: 'assistant', content: one.text }, USER('more')])
  assert.equal(two.turn.session, one.turn.session)
  assert.equal(two.turn.offPrefix, false)
  assert.equal(two.version, '2')
})
