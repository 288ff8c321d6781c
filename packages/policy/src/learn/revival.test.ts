/** The learning engine when its thread dies or is closed, and the order of calls. */
import { after, afterEach, before, test } from 'node:test'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import type { LearningEngine, Sampling, StepSettings, TrainItem } from '@instar/engine/port'
import { startLearning, type LearningOptions } from '../index.ts'
import { findBuilt } from '../runtime/tfjs-node/build-folder.ts'
import { CONFIG, randomAdapter, writeRandomModel } from '../../../../test/kit/random-model.ts'
import { crash, latest, started, threads } from '../../../../test/kit/threads.ts'
import { exampleSettings } from '../../../../test/kit/golden/policy/example.ts'

const model = mkdtempSync(path.join(tmpdir(), 'instar-learning-'))
const adapter = randomAdapter(1)
const settings: StepSettings = { ...exampleSettings, seed: 3, microBatchTokens: 64 }
const line = { adapter: null, state: null }
const sampling: Sampling = { temperature: 1, topP: 1, topK: 0, seed: 5, maxTokens: 60, stop: [] }
const item = (seed: number, more: Partial<TrainItem> = {}): TrainItem => ({
  prompt: [1, 2, 3, seed],
  completion: [4, 5, seed],
  behaviourLogprobs: [-5, -5, -5],
  temperature: 1,
  advantage: seed % 2 ? 1 : -1,
  hintPrompt: null,
  ...more,
})
const items = [item(1), item(2), item(3), item(4)]
const scored = { prompt: [1, 2, 3], completion: [4, 5, 6], temperature: 1 }
/** Some seconds of computation. */
const long: StepSettings = { ...settings, epochs: 100_000 }

const open: LearningEngine[] = []
const start = async (more: Partial<LearningOptions> = {}): Promise<LearningEngine> => {
  const engine = await startLearning({ model, backoffMs: [1], ...more })
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
  rmSync(model, { recursive: true, force: true })
})

const lost =
  (reason: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof InstarError && error.code === 'engine_lost' && error.retryable)
    assert.match(error.message, reason)
    return true
  }

test('a thread that dies in an update is replaced: adapters are loaded again, and the update repeats bit for bit', async () => {
  const engine = await start()
  await engine.load(adapter)
  await engine.load(randomAdapter(2))
  await engine.unload(randomAdapter(2).sha256)
  const expected = {
    step: await engine.step(items, settings, line),
    score: await engine.score({ ...scored, adapter: adapter.sha256 }),
  }
  assert.notDeepEqual(expected.score, await engine.score({ ...scored, adapter: null }))

  const fates = Promise.allSettled([
    engine.step(items, long, line),
    engine.score({ ...scored, adapter: null }),
    engine.load(randomAdapter(3)),
  ])
  await crash()
  const reasons = (await fates).map((fate) => fate.status === 'rejected' && (fate.reason as InstarError))
  for (const reason of reasons) lost(/ended: /)(reason)
  assert.deepEqual(
    reasons.map((reason) => reason && reason.details.running),
    ['step', undefined, undefined],
    'only the call that was running may be the cause',
  )
  const [score, step] = await Promise.all([
    engine.score({ ...scored, adapter: adapter.sha256 }),
    engine.step(items, settings, line),
  ])
  assert.deepEqual(score, expected.score)
  assert.deepEqual([step.adapter.sha256, step.stateSha256], [expected.step.adapter.sha256, expected.step.stateSha256])
  for (const seed of [2, 3])
    await assert.rejects(engine.score({ ...scored, adapter: randomAdapter(seed).sha256 }), { code: 'unknown_adapter' })
})

test('calls are performed in the order of their arrival', async () => {
  const engine = await start()
  const order: string[] = []
  const note = async (name: string, call: Promise<unknown>): Promise<void> => {
    await call
    order.push(name)
  }
  const evaluate = (count: number) =>
    engine.evaluate({
      prompts: Array.from({ length: count }, (_, i) => [1, 2, i]),
      adapter: null,
      references: [null],
      sampling,
    })
  const score = () => engine.score({ ...scored, adapter: null })
  const calls = (): Promise<void>[] => [
    note('long', evaluate(40)),
    note('step', engine.step(items, settings, line)),
    note('evaluate', evaluate(2)),
    note('score', score()),
    note('last', evaluate(1)),
  ]
  await Promise.all(calls())
  const wanted = ['long', 'step', 'evaluate', 'score', 'last']
  assert.deepEqual(order.splice(0), wanted)
  await crash()
  await Promise.all(calls())
  assert.deepEqual(order, wanted, 'held while the thread was away')
})

test('an item that does not fit is reported before any computation, and the others can be trained on', async () => {
  const engine = await start()
  const room = CONFIG.contextLength - 3
  const full = item(3, { prompt: Array.from({ length: room }, () => 1) })
  const refused =
    (details: object) =>
    (error: unknown): boolean => {
      assert.ok(error instanceof InstarError && error.code === 'context_length_exceeded')
      assert.deepEqual(error.details, details)
      return true
    }
  const over = { tokens: CONFIG.contextLength + 1, context: CONFIG.contextLength }
  await assert.rejects(
    engine.step([item(1), item(2), { ...full, prompt: [...full.prompt, 1] }], long, line),
    refused({ item: 2, field: 'prompt', ...over }),
  )
  await assert.rejects(
    engine.step([item(1), { ...full, hintPrompt: [...full.prompt, 1] }], long, line),
    refused({ item: 1, field: 'hintPrompt', ...over }),
  )
  await assert.rejects(
    engine.evaluate({
      prompts: [[1], Array.from({ length: CONFIG.contextLength }, () => 1)],
      adapter: null,
      references: [],
      sampling,
    }),
    refused({ item: 1, ...over }),
  )
  assert.equal((await engine.step([item(1), item(2), full], settings, line)).figures.tokens, 9)
})

const unbuilt = findBuilt() ? false : 'the engine tfjs-node is not built here (npm run engine:tfjs-node)'

for (const engineName of ['onnx', 'wasm', 'tfjs-node'] as const) {
  test(
    `closing during an update ends it after the grace period (${engineName})`,
    { skip: engineName === 'tfjs-node' && unbuilt },
    async () => {
      const engine = await start({ engine: engineName, graceMs: 20 })
      const worker = latest()
      const pending = engine.step(items, long, line).catch((error: unknown) => error)
      const score = engine.score({ ...scored, adapter: null }).catch((error: unknown) => error)
      const from = performance.now()
      const [[code]] = await Promise.all([once(worker, 'exit'), engine.close()])
      assert.equal(code, 1)
      assert.ok(performance.now() - from < 1500, `${performance.now() - from} ms`)
      for (const fate of [pending, score]) assert.ok(lost(/was closed/)(await fate))
      await assert.rejects(engine.score({ ...scored, adapter: null }), lost(/was closed/))
      await engine.unload(adapter.sha256)
    },
  )
}

test('closing lets a short call end', async () => {
  const engine = await start({ graceMs: 60_000 })
  const worker = latest()
  const score = engine.score({ ...scored, adapter: null })
  const [[code], logprobs] = await Promise.all([once(worker, 'exit'), score, engine.close()])
  assert.equal(code, 0)
  assert.equal(logprobs.length, 3)
})

test('an aborted start leaves no thread', async () => {
  const control = new AbortController()
  const count = threads.length
  const starting = start({ signal: control.signal })
  await started(count + 1)
  const exited = once(latest(), 'exit')
  control.abort()
  await assert.rejects(starting, { code: 'aborted' })
  await exited
})
