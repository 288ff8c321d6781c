/**
 * The same sealed batch on a real SkyRL (CPU) and through the embedded trainer, on models/tiny, under each loss: gradient,
 * adapters after one and two steps, and the figures of the update.
 *
 *   node bootstrap.cjs test/engines/nightly/same-batch.ts [URL]
 *
 * Without the URL of a running SkyRL on models/tiny it installs and starts one, as nightly:tinker does. Prints the figures;
 * exit code 0 if all tests pass.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Adapter, Model, TrainItem } from '@instar/engine/port'
import { createTurnReader, getBlob, openMemoryLog } from '@instar/log'
import { adapterFromWeights, loadWeights, openModel, startLearning } from '@instar/policy'
import { readSafetensors } from '@instar/policy/checkpoints/safetensors'
import { completionLogprobs, ownLogprobs } from '@instar/policy/forward'
import { createRuntime, type Runtime } from '@instar/policy/runtime/runtime'
import { Trainer } from '@instar/policy/step'
import { connectTrainer, saveRequest, type TrainingServer } from '@instar/tinker'
import { stepSettings, trainItem } from '../../../services/trainer/src/shell/train-item.ts'
import { openLine, STEP, startTrainer, untilWaits } from '../../kit/remote-line.ts'
import { MODEL } from '../trials.ts'
import { startSkyrl, type Skyrl } from './skyrl.ts'

for (const [name, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(name, () => process.exit(128 + number))

const [, , running] = process.argv
const WAIT_MS = 30 * 60_000
const RANK = 8
/** Relative to the norm of the embedded trainer's gradient. Two float32 engines with their own order of summation. */
const GRADIENT = 1e-4
/** ‖difference‖ / ‖change‖ of an adapter; Adam's step of a weight with a tiny gradient has its sign alone. */
const ADAPTER = 1e-2
const WISH = 'Answer in one short sentence.'

type Tensors = Map<string, Float32Array>
const tensorsOf = (bytes: Uint8Array): Tensors =>
  new Map([...readSafetensors(bytes, 'x')].map(([name, { data }]) => [name, data as Float32Array]))
const minus = (a: Tensors, b: Tensors): Tensors =>
  new Map([...a].map(([name, values]) => [name, values.map((value, at) => value - (b.get(name)?.[at] ?? Number.NaN))]))
const norm = (tensors: Tensors): number =>
  Math.sqrt([...tensors.values()].reduce((sum, all) => all.reduce((part, value) => part + value ** 2, sum), 0))
/**
 * SkyRL has one A for q, k and v, and one for gate and up, and sends a copy for each; the embedded trainer has one A each.
 * Their changes, from the second step on, are not comparable.
 */
const comparable = (tensors: Tensors): Tensors =>
  new Map([...tensors].filter(([name]) => !/(q|k|v|gate|up)_proj\.lora_A/.test(name)))

/** From Adam's first step with rate and epsilon 1: a weight moves by g / (|g| + 1). */
const gradient = (before: Tensors, after: Tensors): Tensors =>
  new Map([...minus(before, after)].map(([name, moved]) => [name, moved.map((value) => value / (1 - Math.abs(value)))]))

describe('the same sealed batch on SkyRL and through the embedded trainer', () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-same-'))
  const figures: Record<string, unknown> = {}
  let skyrl: Skyrl | null = null
  let address: string
  let runtime: Runtime
  let model: Model
  let items: TrainItem[]

  before(
    async () => {
      if (running === undefined) skyrl = await startSkyrl({ model: MODEL, folder, rank: RANK })
      await skyrl?.ready()
      address = `tinker+${skyrl?.url ?? running}`
      model = await openModel(MODEL)
      const { config, weights } = loadWeights(MODEL)
      runtime = await createRuntime({ config, weights, base: model.sha256, engine: 'onnx', threads: 1 })
      items = await sampled()
    },
    { timeout: WAIT_MS },
  )
  after(async () => {
    await skyrl?.stop()
    await runtime?.close()
    rmSync(folder, { recursive: true, force: true })
    process.stdout.write(`${JSON.stringify({ sameBatch: figures })}\n`)
  })

  /** Ten answers of the base at temperature 1, every third with a hint. The prompt is that of the kit's turns. */
  const sampled = async (): Promise<TrainItem[]> => {
    const prompts = Array.from({ length: 10 }, (_, at) =>
      model.promptIds([{ role: 'user', content: `What is ${at + 2} + ${at * 3}? Tell me about it.` }], {}),
    )
    const learner = await startLearning({ model: MODEL })
    const { completions } = await learner.evaluate({
      prompts,
      adapter: null,
      references: [],
      sampling: { temperature: 1, topP: 1, topK: 0, seed: 5, maxTokens: 24, stop: [] },
    })
    await learner.close()
    return Promise.all(
      prompts.map(async (prompt, at): Promise<TrainItem> => {
        const completion = completions[at]?.ids ?? []
        const [rows] = await completionLogprobs(runtime, [{ prompt, completion, temperature: 1, slot: null }])
        return {
          prompt,
          completion,
          temperature: 1,
          advantage: at % 3 === 0 ? -0.7 : 0.4,
          behaviourLogprobs: [...ownLogprobs(rows as Float32Array, completion)],
          hintPrompt: at % 3 === 0 ? [0] : null,
        }
      }),
    )
  }

  /** The adapter with which the server begins a model of a seed. */
  const initialOf = async (server: TrainingServer, baseModel: string, seed: number): Promise<Adapter> => {
    const session = await server.openSession()
    const { model: id } = await server.createModel(session, { base: baseModel, rank: RANK, seed, modelSeq: 0 })
    const { result } = await server.send(saveRequest(server.wire, 'save_weights_for_sampler', id, 1, 'initial', null))
    const { weights } = await server.archive(result.path, model.sha256)
    await server.unload(id)
    server.endSession(session)
    return adapterFromWeights(weights)
  }

  type Compared = {
    initial: Tensors
    remote: Tensors
    embedded: Tensors
    figures: Record<'remote' | 'embedded', Readonly<Record<string, number>>>
  }
  /** An update on the server, and the same one through the embedded trainer from the server's initial adapter. */
  const both = async (loss: string, step: Record<string, number>): Promise<Compared> => {
    const line = await openLine(openMemoryLog(), model)
    await line.turns(items)
    const hinted: Model = {
      ...model,
      promptIds: () => model.promptIds([{ role: 'user', content: `What is 2 + 0? ${WISH}` }], {}),
    }
    const settings = { loss, step: { ...STEP, rank: RANK, klFullAtAdvantage: 0, klWeight: 0.2, ...step } }
    const server = await connectTrainer(address, { key: null })
    const started = await startTrainer(line.log, { server }, hinted, settings)
    await untilWaits(started, 'verdict')
    const [[sealed], [bound], [computed]] = [
      await line.events('BatchSealed'),
      await line.events('TrainerBound'),
      await line.events('UpdateComputed'),
    ]
    assert.ok(sealed && bound && computed?.remote)
    const initial = await initialOf(server, bound.baseModel, bound.seed)
    await Promise.all([bound.model, bound.reference].map((one) => server.unload(one)))
    await started.trainer.stop()
    const remote = await getBlob(line.log, computed.adapter, computed.blobsAt)
    const { alpha } = JSON.parse(bound.capabilities) as { alpha: number }
    const reader = createTurnReader(line.log, (turn) => started.trainer.state.turns.turns.get(turn))
    const same = await Promise.all(sealed.items.map((item) => trainItem({ reader, model: hinted }, item, loss)))
    const embedded = await new Trainer(runtime, model.sha256).step(
      same,
      { ...stepSettings(sealed), alpha, klParentMax: Infinity, klBaseMax: Infinity },
      { adapter: initial, state: null },
    )
    return {
      initial: tensorsOf(initial.weights),
      remote: tensorsOf(remote),
      embedded: tensorsOf(embedded.adapter.weights),
      figures: { remote: computed.figures, embedded: embedded.figures as unknown as Record<string, number> },
    }
  }

  for (const loss of ['hybrid', 'binary', 'opd'] as const)
    test(`${loss}: gradient and figures`, { timeout: WAIT_MS }, async () => {
      const {
        initial,
        remote,
        embedded,
        figures: found,
      } = await both(loss, {
        epochs: 1,
        adamEpsilon: 1,
        learningRate: 1,
      })
      const [own, other] = [gradient(initial, embedded), gradient(initial, remote)]
      const apart = norm(minus(other, own)) / norm(own)
      const names = ['loss', 'policyLoss', 'opdLoss', 'klLoss', 'gradNorm', 'tokens', 'droppedHints', 'behaviourGap']
      const rows = names.map((name) => [name, found.remote[name] ?? null, found.embedded[name] ?? 0] as const)
      figures[loss] = { gradientApart: apart, gradientNorm: norm(own), figures: rows }
      assert.ok(norm(own) > 0)
      assert.ok(apart < GRADIENT, String(apart))
      for (const [name, theirs, ours] of rows)
        assert.ok(Math.abs((theirs ?? Number.NaN) - ours) <= 1e-4 * Math.max(1, Math.abs(ours)), name)
      assert.equal((found.remote['opdLoss'] ?? 0) > 0, loss !== 'binary')
    })

  for (const epochs of [1, 2])
    test(`hybrid: the adapter after ${epochs} of Adam's steps`, { timeout: WAIT_MS }, async () => {
      const { initial, remote, embedded } = await both('hybrid', { epochs, adamEpsilon: 1e-8 })
      const change = norm(comparable(minus(embedded, initial)))
      const apart = norm(comparable(minus(remote, embedded))) / change
      figures[`adapter${epochs}`] = { apart, change }
      assert.ok(apart < ADAPTER, String(apart))
    })
})
