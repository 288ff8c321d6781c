/**
 * The engine tfjs-node compared with the reference, where its addon is built; elsewhere each test is skipped with the
 * reason.
 */
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InstarError } from '@instar/events/errors'
import { readAdapter } from '../../checkpoints/peft.ts'
import { padded } from '../../forward.ts'
import { initialLora, loraTensors } from '../../lora.ts'
import { uniform } from '../../random.ts'
import { createRuntime, type Runtime } from '../runtime.ts'
import { createTfjsNodeBackend } from './backend.ts'
import { loadNative } from './native.ts'
import { findBuilt } from './build-folder.ts'
import { Trainer } from '../../step.ts'
import { compileTraining, type MicroBatch } from '../../training.ts'
import type { TrainItem } from '@instar/engine/port'
import { openModel, startLearning } from '../../index.ts'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'

const built = findBuilt()
const where = { skip: built ? false : 'the engine tfjs-node is not built here (npm run engine:tfjs-node)' }
const none = { adapter: null, state: null }
const fixed = { rank: 4, alpha: 8, clipLow: 0.2, clipHigh: 0.28, topK: 0 }

const open = (engine: 'tfjs-node' | 'wasm'): Promise<Runtime> =>
  createRuntime({ config, weights: exampleWeights(), base: 'example', engine, threads: 1 })

/** Four turns with all three parts of the loss, from one seed. */
function microBatch(): MicroBatch {
  const next = uniform(41)
  const ids = (count: number): number[] => Array.from({ length: count }, () => Math.floor(next() * config.vocabulary))
  const turns = [9, 14, 5, 11].map((length) => ({ prompt: ids(length), completion: ids(6) }))
  const { T, places: rows, ids: padding } = padded(turns)
  const references = Float32Array.from({ length: rows.length * config.vocabulary }, () => 2 * next())
  for (let row = 0; row < rows.length; row++) {
    const own = references.subarray(row * config.vocabulary, (row + 1) * config.vocabulary)
    const total = Math.log(own.reduce((sum, value) => sum + Math.exp(value), 0))
    own.forEach((value, v) => {
      own[v] = value - total
    })
  }
  const each = rows.map((_, at) => at)
  return {
    B: turns.length,
    T,
    ids: padding,
    rows,
    targets: turns.flatMap(({ completion }) => completion),
    inverseTemperature: rows.map(() => 1 / 0.7),
    old: rows.map(() => -4 + next()),
    advantage: rows.map((_, at) => (at % 12 < 6 ? 0.8 : -0.6)),
    weight: rows.map(() => 1 / rows.length),
    opd: { places: each, reference: { ids: null, logp: references }, weight_R: rows.map(() => 0.5 / rows.length) },
    kl: { places: each, reference: { ids: null, logp: references }, weight_R: rows.map(() => 0.03 / rows.length) },
  }
}

async function gradients(
  runtime: Runtime,
  batch: MicroBatch,
): Promise<{ loss: number; gradients: Map<string, Float32Array> }> {
  const next = uniform(8)
  const adapter = loraTensors(config, initialLora(config, fixed.rank, fixed.alpha, 1))
  for (const [name, { data }] of adapter)
    if (name.endsWith('lora_B')) for (let at = 0; at < data.length; at++) data[at] = 0.3 * (next() - 0.5)
  const training = await compileTraining(runtime.backend, config, runtime.constants, fixed)
  const result = await training.run(adapter, batch)
  await training.dispose()
  return result
}

test('gradients equal those of the reference within 1e-5 of the norm of each matrix', where, async (t) => {
  const batch = microBatch()
  const found = []
  for (const engine of ['tfjs-node', 'wasm'] as const) {
    const runtime = await open(engine)
    found.push(await gradients(runtime, batch))
    await runtime.close()
  }
  const [native, wasm] = found as [(typeof found)[number], (typeof found)[number]]
  assert.ok(Math.abs(native.loss / wasm.loss - 1) < 1e-5, `${native.loss} against ${wasm.loss}`)
  let worst = 0
  assert.equal(native.gradients.size, 2 * 7 * config.layers)
  for (const [name, gradient] of native.gradients) {
    const other = wasm.gradients.get(name) as Float32Array
    const length = Math.hypot(...other)
    assert.ok(length > 0, name)
    worst = Math.max(worst, Math.hypot(...gradient.map((value, at) => value - (other[at] as number))) / length)
  }
  t.diagnostic(`worst relative difference ${worst.toExponential(1)}`)
  assert.ok(worst <= 1e-5, `${worst}`)
})

test('an update equals that of the reference within 2e-5 in 99 % of the numbers', where, async () => {
  const made = []
  for (const engine of ['tfjs-node', 'wasm'] as const) {
    const runtime = await open(engine)
    const { adapter, figures, fingerprint } = await new Trainer(runtime, 'example').step(
      await exampleItems(runtime),
      exampleSettings,
      none,
    )
    made.push({
      figures,
      fingerprint,
      values: [...readAdapter(adapter, config).modules.values()].flatMap(({ a, b }) => [...a.data, ...b.data]),
    })
    await runtime.close()
  }
  const [native, wasm] = made as [(typeof made)[number], (typeof made)[number]]
  assert.ok(Math.abs(native.figures.loss - wasm.figures.loss) < 1e-4)
  assert.ok(Math.abs(native.figures.gradNorm / wasm.figures.gradNorm - 1) < 1e-4)
  const apart = native.values.map((value, at) => Math.abs(value - (wasm.values[at] as number))).sort((a, b) => a - b)
  assert.ok((apart[Math.floor(apart.length * 0.99)] as number) < 2e-5, `${apart[Math.floor(apart.length * 0.99)]}`)
  assert.equal(native.fingerprint.engine, 'tfjs-node')
  assert.match(
    native.fingerprint.build,
    /^tfjs-node 4\.22\.0, TensorFlow 2\.21\.0, oneDNN (on|off), device (CPU|GPU .+, TF32 (on|off)), arithmetic [0-9a-f]{12}$/,
  )
  assert.notEqual(native.fingerprint.build, wasm.fingerprint.build)
})

test('updates and decoding leave no tensors in JavaScript or in the library', where, async () => {
  const runtime = await open('tfjs-node')
  const native = loadNative(built?.folder ?? '', built?.kind ?? 'cpu', 1)
  const trainer = new Trainer(runtime, 'example')
  const items = await exampleItems(runtime)
  await trainer.step(items, exampleSettings, none)
  const before = native.usage()
  assert.ok(before.handles > 0)
  for (let round = 0; round < 3; round++) {
    await trainer.step(items, exampleSettings, none)
    await exampleItems(runtime)
  }
  assert.deepEqual(native.usage(), before)
  await runtime.close()
  assert.ok(native.usage().handles < before.handles)
})

async function oneStep(environment: Record<string, string>): Promise<string> {
  const script = fileURLToPath(new URL('../../../../../test/kit/golden/policy/one-step.ts', import.meta.url))
  const child = spawn(process.execPath, [script, 'tfjs-node'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...environment },
  })
  let text = ''
  child.stdout.setEncoding('utf8')
  for await (const piece of child.stdout) text += String(piece)
  return text.trim()
}

test('two processes give the same adapter and state, whatever the number of threads', where, async () => {
  const [one, two] = await Promise.all([oneStep({}), oneStep({ TF_NUM_INTRAOP_THREADS: '2' })])
  assert.match(one, /^[0-9a-f]{64} [0-9a-f]{64}$/)
  assert.equal(two, one)
})

test('the learning thread runs on tfjs-node, reports it, repeats its bits, and closes', where, async () => {
  const model = fileURLToPath(new URL('../../../../../models/tiny', import.meta.url))
  const opened = await openModel(model)
  const prompt = opened.promptIds([{ role: 'user', content: 'Name three fruits.' }], {})
  const shas = new Set<string>()
  for (let round = 0; round < 2; round++) {
    const engine = await startLearning({ model, engine: 'tfjs-node' })
    assert.match(engine.choice, /^engine tfjs-node \(tfjs-node 4\.22\.0, TensorFlow 2\.21\.0, .*\): as configured$/)
    const { completions } = await engine.evaluate({
      prompts: [prompt, prompt],
      adapter: null,
      references: [null],
      sampling: { temperature: 0.7, topP: 1, topK: 0, seed: 5, maxTokens: 8, stop: [] },
    })
    const items = await Promise.all(
      completions.map(async ({ ids }, at): Promise<TrainItem> => ({
        prompt,
        completion: ids,
        temperature: 0.7,
        advantage: at === 0 ? 1 : -1,
        hintPrompt: null,
        behaviourLogprobs: [...(await engine.score({ prompt, completion: ids, adapter: null, temperature: 0.7 }))],
      })),
    )
    const { adapter, figures } = await engine.step(items, exampleSettings, none)
    assert.ok(figures.behaviourGap < 1e-5 && figures.gradNorm > 0)
    shas.add(adapter.sha256)
    await engine.close()
  }
  assert.equal(shas.size, 1)
})

test('tfjs-node that is not built gives an error that names the command', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-unbuilt-'))
  try {
    await assert.rejects(createTfjsNodeBackend({ threads: 1, folder }), (error: unknown) => {
      assert.ok(error instanceof InstarError && error.code === 'engine_not_built' && !error.retryable)
      assert.match(error.message, /npm run engine:tfjs-node`.*-- --gpu/)
      return true
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
})
