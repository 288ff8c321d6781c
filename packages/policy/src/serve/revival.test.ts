/** The serving engine when its thread dies, cannot start, or is closed. */
import { after, afterEach, before, test } from 'node:test'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import type { Constraint, GenerateRequest, ServingEngine } from '@instar/engine/port'
import { startServing } from '../index.ts'
import type { ServingOptions } from './engine.ts'
import { CONFIG, randomAdapter, writeRandomModel } from '../../../../test/kit/random-model.ts'
import { crash, latest, spoken, started, threads } from '../../../../test/kit/threads.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'instar-revival-'))
const model = path.join(folder, 'model')
const away = path.join(folder, 'away')
const [first, second] = [randomAdapter(1), randomAdapter(2)]
const open: ServingEngine[] = []

const start = async (more: Partial<ServingOptions> = {}): Promise<ServingEngine> => {
  const engine = await startServing({ model, threads: 1, rows: 4, slots: 2, backoffMs: [1], ...more })
  open.push(engine)
  return engine
}
before(() => {
  writeRandomModel(model)
})
afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()))
})
after(() => {
  rmSync(folder, { recursive: true, force: true })
})

const request = (adapter: string | null, maxTokens = 12): GenerateRequest => ({
  prompt: [1, 2, 3, 4],
  adapter,
  topLogprobs: 0,
  sampling: { temperature: 1, topP: 1, topK: 0, seed: 7, maxTokens, stop: [] },
})

const answer = async (engine: ServingEngine, given: GenerateRequest): Promise<number[]> => {
  const ids: number[] = []
  for await (const piece of engine.generate(given))
    if (piece.type === 'tokens') ids.push(...piece.tokens.map(({ id }) => id))
  return ids
}

const lost =
  (reason: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof InstarError && error.code === 'engine_lost' && error.retryable)
    assert.match(error.message, reason)
    return true
  }

test('a thread that dies is replaced with its adapters, and waiting requests are answered', async () => {
  const engine = await start()
  await engine.load(first)
  await engine.load(second)
  await engine.load(randomAdapter(3))
  const expected = [
    await answer(engine, request(null)),
    await answer(engine, request(first.sha256)),
    await answer(engine, request(second.sha256)),
  ]
  assert.equal(new Set(expected.map(String)).size, 3)
  const stream = engine.generate(request(first.sha256, 200))[Symbol.asyncIterator]()
  await stream.next()
  const scoring = engine.score({
    prompt: [1],
    completion: Array.from({ length: 200 }, () => 2),
    adapter: null,
    temperature: 1,
  })
  const dead = latest()
  const fates = Promise.allSettled([
    (async () => {
      while (!(await stream.next()).done);
    })(),
    scoring,
  ])
  await crash()
  for (const fate of await fates) assert.ok(fate.status === 'rejected' && lost(/ended: /)(fate.reason))
  assert.match(engine.lost?.() ?? '', /ended: /)
  assert.deepEqual(engine.pending(), { running: 0, waiting: 0 })

  const held = [
    answer(engine, request(null)),
    answer(engine, request(first.sha256)),
    answer(engine, request(second.sha256)),
  ]
  await engine.unload(randomAdapter(3).sha256)
  const fourth = randomAdapter(4)
  const loading = engine.load(fourth)
  const json = (schema: unknown): Constraint => ({
    json: { field: 'response_format', schema },
    calls: [],
    maxCalls: 1,
    insideReasoning: false,
  })
  const checking = Promise.allSettled([engine.check!(json({ type: 'boolean' })), engine.check!(json({ not: {} }))])
  const control = new AbortController()
  const givenUp = engine.generate(request(null), control.signal)[Symbol.asyncIterator]()
  control.abort()
  await assert.rejects(givenUp.next(), { code: 'aborted' })
  assert.deepEqual(engine.pending(), { running: 3, waiting: 0 })
  assert.deepEqual(await Promise.all(held), expected)
  await loading
  const [taken, refused] = await checking
  assert.equal(taken.status, 'fulfilled')
  assert.ok(refused.status === 'rejected' && (refused.reason as InstarError).code === 'bad_request')
  assert.ok((await answer(engine, request(fourth.sha256))).length > 0)
  assert.equal(engine.lost?.(), null)
  assert.notEqual(latest(), dead)
  assert.throws(() => engine.generate(request(randomAdapter(3).sha256)), { code: 'unknown_adapter' })
})

test('a thread that cannot start reports why, is retried with growing delays, and then serves', async () => {
  const engine = await start({ backoffMs: [1, 20, 40] })
  await engine.load(first)
  const expected = await answer(engine, request(first.sha256))
  const before = threads.length
  renameSync(model, away)
  await crash()
  await assert.rejects(answer(engine, request(null)), lost(/could not be restarted: .*model/))
  assert.throws(() => engine.generate(request(null)), lost(/could not be restarted/))
  await assert.rejects(engine.load(second), lost(/could not be restarted/))
  assert.match(engine.lost?.() ?? '', /could not be restarted/)
  await started(before + 4)
  const pauses = threads.slice(before).map(({ at }, i, all) => at - (all[i - 1]?.at ?? at))
  for (const [i, pause] of [0, 20, 40, 40].entries()) assert.ok(pauses[i]! >= pause - 1, `pause ${i}: ${pauses[i]} ms`)
  await spoken()
  renameSync(away, model)
  while (engine.lost?.() !== null) {
    await started(threads.length + 1)
    await spoken()
  }
  assert.deepEqual(await answer(engine, request(first.sha256)), expected)
})

test('another model at the same path is not served', async () => {
  const engine = await start()
  renameSync(model, away)
  writeRandomModel(model, { ...CONFIG, ropeTheta: 5000 })
  try {
    await crash()
    await assert.rejects(answer(engine, request(null)), lost(/has changed since the start/))
  } finally {
    rmSync(model, { recursive: true })
    renameSync(away, model)
  }
})

test('a request waits for a new thread up to the limit', async () => {
  const engine = await start({ backoffMs: [60_000], waitMs: 5 })
  await crash()
  await assert.rejects(answer(engine, request(null)), lost(/not been restarted after 0\.005 s/))
  assert.throws(() => engine.generate(request(null)), lost(/not been restarted/))
})

test('closing ends an idle thread, cuts a busy one after the grace period, and starts none again', async () => {
  const idle = await start()
  const idles = latest()
  const [[code]] = await Promise.all([once(idles, 'exit'), idle.close()])
  assert.equal(code, 0)

  const busy = await start({ graceMs: 0 })
  const worker = latest()
  const pending = busy.score({
    prompt: [1],
    completion: Array.from({ length: 250 }, () => 2),
    adapter: null,
    temperature: 1,
  })
  const [[cut], fate] = await Promise.all([
    once(worker, 'exit'),
    pending.catch((error: unknown) => error),
    busy.close(),
  ])
  assert.equal(cut, 1)
  assert.ok(lost(/was closed/)(fate))
  assert.throws(() => busy.generate(request(null)), lost(/was closed/))

  const gone = await start({ backoffMs: [60_000] })
  await crash()
  const waiting = answer(gone, request(null))
  await Promise.all([assert.rejects(waiting, lost(/was closed/)), gone.close()])
})

test('an aborted start leaves no thread', async () => {
  const control = new AbortController()
  const before = threads.length
  const starting = start({ signal: control.signal })
  await started(before + 1)
  const exited = once(latest(), 'exit')
  control.abort(new Error('SIGTERM'))
  await assert.rejects(starting, { code: 'aborted' })
  await exited
  await assert.rejects(start({ signal: control.signal }), { code: 'aborted' })
  assert.equal(threads.length, before + 1)
  const late = new AbortController()
  const engine = await start({ signal: late.signal })
  late.abort()
  assert.ok((await answer(engine, request(null))).length > 0)
})
