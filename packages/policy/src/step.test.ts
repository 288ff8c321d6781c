import { test } from 'node:test'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { spawn } from 'node:child_process'
import { InstarError } from '@instar/events/errors'
import { completionLogprobs, ownLogprobs } from './forward.ts'
import { initialWeights } from './initial.ts'
import { weightsFrom } from './weights.ts'
import { tokenWeights } from './token-weights.ts'
import { createRuntime } from './runtime/runtime.ts'
import type { Runtime } from './runtime/runtime.ts'
import { miniBatches, Trainer } from './step.ts'
import { readAdapter } from './checkpoints/peft.ts'
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'

const settings: StepSettings = exampleSettings
const none = { adapter: null, state: null }

async function open(engine: 'onnx' | 'wasm' = 'onnx'): Promise<{ runtime: Runtime; trainer: Trainer }> {
  const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine, threads: 1 })
  return { runtime, trainer: new Trainer(runtime, 'example') }
}

async function logprobs(runtime: Runtime, item: TrainItem, slot: number | null): Promise<number> {
  const [rows] = await completionLogprobs(runtime, [{ ...item, slot }])
  return ownLogprobs(rows as Float32Array, item.completion).reduce((sum, value) => sum + value, 0)
}

test('an update increases the advantage-weighted log-probability and does not change the frozen weights', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const digest = (): string => {
    const hash = createHash('sha256')
    for (const [name, { data }] of runtime.constants)
      hash.update(name).update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    return hash.digest('hex')
  }
  const frozen = digest()
  const before = await Promise.all(items.map((item) => logprobs(runtime, item, null)))
  const result = await trainer.step(items, { ...settings, klWeight: 0, opdWeight: 0 }, none)
  assert.equal(digest(), frozen)
  runtime.setAdapterSlot(1, readAdapter(result.adapter, config))
  const after = await Promise.all(items.map((item) => logprobs(runtime, item, 1)))
  const gain = items.reduce(
    (sum, item, at) => sum + item.advantage * ((after[at] as number) - (before[at] as number)),
    0,
  )
  assert.ok(gain > 0.5, `advantage-weighted gain ${gain}`)
  assert.equal(result.figures.steps, settings.epochs)
  assert.ok(result.figures.behaviourGap < 1e-5, 'sampled on-policy')
  assert.equal(result.figures.maskedTurns, 0)
  // On-policy, the ratio in the first epoch is 1, and the policy loss is −mean A over the tokens.
  const tokens = items.reduce((sum, item) => sum + item.completion.length, 0)
  assert.equal(result.figures.tokens, tokens)
  const one = await trainer.step(items, { ...settings, epochs: 1, klWeight: 0, opdWeight: 0 }, none)
  const expected = -items.reduce((sum, item) => sum + item.advantage * item.completion.length, 0) / tokens
  assert.ok(Math.abs(one.figures.policyLoss - expected) < 1e-5, `${one.figures.policyLoss}, expected ${expected}`)
  await runtime.close()
})

test('updates with different micro-batch sizes differ by less than 2e-6; equal sizes give equal bytes', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const shas = new Set<string>()
  let reference: Float32Array | null = null
  for (const microBatchTokens of [1, 60, 60, 4096]) {
    const { adapter } = await trainer.step(items, { ...settings, microBatchTokens }, none)
    shas.add(adapter.sha256)
    const values = Float32Array.from(
      [...readAdapter(adapter, config).modules.values()].flatMap(({ a, b }) => [...a.data, ...b.data]),
    )
    reference ??= values
    // The first Adam steps are ±learning rate for any size of the gradient; a gradient near zero may change its sign.
    const apart = values.map((value, at) => Math.abs(value - ((reference as Float32Array)[at] as number))).sort()
    assert.ok((apart[Math.floor(apart.length * 0.99)] as number) < 2e-6, `${apart[Math.floor(apart.length * 0.99)]}`)
  }
  assert.ok(shas.size <= 3)
  await runtime.close()
})

test('mini-batches deal the micro-batches in turn to as many Adam steps, and to no more than there are', async () => {
  assert.deepEqual(miniBatches([1, 2, 3, 4, 5], { miniBatches: 2 }), [
    { groups: [1, 3, 5], index: 0, count: 2 },
    { groups: [2, 4], index: 1, count: 2 },
  ])
  assert.deepEqual(miniBatches([1, 2], {}), [{ groups: [1, 2], index: 0, count: 1 }])
  assert.equal(miniBatches([1, 2], { miniBatches: 9 }).length, 2)
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const once = { ...settings, epochs: 1, learningRate: 1e-6, maxGradNorm: 1e9 }
  const whole = await trainer.step(items, once, none)
  const absent = await trainer.step(items, { ...once, miniBatches: 1 }, none)
  assert.equal(absent.adapter.sha256, whole.adapter.sha256)
  assert.equal(absent.stateSha256, whole.stateSha256)
  const parts = await trainer.step(items, { ...once, miniBatches: 2 }, none)
  assert.deepEqual([whole.figures.steps, parts.figures.steps], [1, 2])
  // With steps as small as these the terms of the parts add up to those of the batch.
  for (const key of ['loss', 'policyLoss', 'opdLoss', 'klLoss'] as const)
    assert.ok(Math.abs(parts.figures[key] - whole.figures[key]) < 1e-4, `${key}: ${parts.figures[key]}`)
  // One gradient of norm g is the mean of the parts' estimates, so that their mean norm is at least g.
  assert.ok(parts.figures.gradNorm >= whole.figures.gradNorm * 0.999, `${parts.figures.gradNorm}`)
  await runtime.close()
})

test('a turn whose temperature has no reciprocal in float32 is refused as that item, before any computation', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  for (const temperature of [5e-324, 1e-40, 9e-31]) {
    // As the serving engine reports a token that it took for certain.
    const cold = { ...(items[4] as TrainItem), temperature, behaviourLogprobs: items[4]!.completion.map(() => 0) }
    await assert.rejects(trainer.step(items.with(4, cold), settings, none), (error: InstarError) => {
      assert.deepEqual([error.code, error.details.item], ['bad_request', 4])
      return true
    })
  }
  await runtime.close()
})

test('a second update continues from the optimizer state; without the state its result differs', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const first = await trainer.step(items, settings, none)
  const second = await trainer.step(items, settings, { adapter: first.adapter, state: first.state })
  const withoutState = await trainer.step(items, settings, { adapter: first.adapter, state: null })
  assert.notEqual(second.adapter.sha256, first.adapter.sha256)
  assert.notEqual(second.adapter.sha256, withoutState.adapter.sha256)
  assert.notEqual(second.stateSha256, first.stateSha256)
  const again = await trainer.step(items, settings, { adapter: first.adapter, state: first.state })
  assert.equal(again.adapter.sha256, second.adapter.sha256)
  assert.equal(again.stateSha256, second.stateSha256)
  await assert.rejects(trainer.step(items, settings, { adapter: first.adapter, state: first.state.subarray(0, 100) }), {
    code: 'bad_checkpoint',
  })
  await runtime.close()
})

test('the figures count the tokens of each pass: before the steps, of hints, and with gradients', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const tokens = (of: (item: TrainItem) => number): number => items.reduce((sum, item) => sum + of(item), 0)
  const [prompt, response] = [tokens((item) => item.prompt.length), tokens(({ completion }) => completion.length)]
  const teacher = tokens(({ hintPrompt, completion }) => (hintPrompt ? hintPrompt.length + completion.length : 0))
  assert.ok(teacher > 0)
  const free = { ...settings, epochs: 2, klParentMax: Infinity, klBaseMax: Infinity, klWeight: 0.1 }
  const { figures } = await trainer.step(items, free, none)
  // Forward: the policy and the base, once each.
  assert.partialDeepStrictEqual(figures, {
    forwardPromptTokens: 2 * prompt,
    forwardResponseTokens: 2 * response,
    teacherTokens: teacher,
    backwardPromptTokens: 2 * prompt,
    backwardResponseTokens: 2 * response,
  })
  // From sampled tokens the second epoch needs the log-probabilities of its adapter.
  const sampled = await trainer.step(items, { ...free, sampledTokens: 1 }, none)
  assert.deepEqual(
    [sampled.figures.forwardPromptTokens, sampled.figures.backwardPromptTokens],
    [3 * prompt, 2 * prompt],
  )
  await runtime.close()
})

test('a batch with zero advantages and no hints does not change adapter and optimizer state', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const first = await trainer.step(items, settings, none)
  const zeroItems = items.map((item) => ({ ...item, advantage: 0, hintPrompt: null }))
  const result = await trainer.step(zeroItems, settings, { adapter: first.adapter, state: first.state })
  assert.equal(result.adapter.sha256, first.adapter.sha256)
  assert.equal(result.stateSha256, first.stateSha256)
  assert.deepEqual([result.figures.steps, result.figures.gradNorm, result.figures.loss], [0, 0, 0])
  await runtime.close()
})

test('a turn whose recorded log-probabilities differ too much from the learner is masked', async () => {
  const { runtime, trainer } = await open()
  const items = (await exampleItems(runtime)).map((item, at) => ({
    ...item,
    hintPrompt: null,
    behaviourLogprobs: at === 0 ? item.behaviourLogprobs.map((value) => value - 2) : item.behaviourLogprobs,
  }))
  const { figures } = await trainer.step(items, settings, none)
  assert.equal(figures.maskedTurns, 1)
  assert.ok(figures.behaviourGap > 0.05)
  await runtime.close()
})

test('a turn that was sampled by other weights turns an update round where no mask leaves it out', async () => {
  const { runtime, trainer } = await open()
  const [first] = (await exampleItems(runtime)) as [TrainItem]
  const own = async (item: TrainItem): Promise<number[]> => {
    const [rows] = await completionLogprobs(runtime, [{ ...item, slot: null }])
    return [...ownLogprobs(rows as Float32Array, item.completion)]
  }
  const prompt = (at: number): number[] => Array.from({ length: 12 }, (_, i) => (7 * at + 3 * i) % config.vocabulary)
  const fresh = Array.from({ length: 8 }, (_, at): TrainItem => ({
    ...first,
    prompt: prompt(at + 20),
    hintPrompt: null,
  }))
  /** The same answer to eight prompts. Seven praise it; one, whose record is of other weights, condemns it. */
  const items = await Promise.all(
    Array.from({ length: 8 }, async (_, at): Promise<TrainItem> => {
      const item = { ...first, prompt: prompt(at), advantage: at === 0 ? -1 : 0.2, hintPrompt: null }
      const sampled = await own(item)
      return { ...item, behaviourLogprobs: at === 0 ? sampled.map((value) => value - 3) : sampled }
    }),
  )
  const gain = async (sequenceMask: number): Promise<{ gain: number; masked: number }> => {
    const bounds = { ...settings, klWeight: 0, sequenceMask }
    const { adapter, figures } = await trainer.step(items, bounds, none)
    runtime.setAdapterSlot(1, readAdapter(adapter, config))
    let sum = 0
    for (const item of fresh) sum += (await logprobs(runtime, item, 1)) - (await logprobs(runtime, item, null))
    return { gain: sum, masked: figures.maskedTurns }
  }
  const unguarded = await gain(1e9)
  const guarded = await gain(4)
  await runtime.close()
  assert.deepEqual([unguarded.masked, guarded.masked], [0, 1])
  assert.ok(unguarded.gain < 0, `without the mask ${unguarded.gain}`)
  assert.ok(guarded.gain > 0, `with it ${guarded.gain}`)
})

test('invalid items are refused with bad_request, too long ones with context_length_exceeded', async () => {
  const { runtime, trainer } = await open()
  const [item] = (await exampleItems(runtime)) as [TrainItem]
  for (const invalid of [
    { ...item, completion: [] },
    { ...item, behaviourLogprobs: item.behaviourLogprobs.slice(1) },
    { ...item, advantage: Number.NaN },
    { ...item, prompt: [config.vocabulary] },
    { ...item, behaviourLogprobs: item.behaviourLogprobs.map(() => -Infinity) },
  ])
    await assert.rejects(trainer.step([invalid], settings, none), { code: 'bad_request' })
  await assert.rejects(
    trainer.step([{ ...item, prompt: new Array<number>(config.contextLength).fill(1) }], settings, none),
    { code: 'context_length_exceeded' },
  )
  await runtime.close()
})

test('a turn of turnTokensMax tokens is trained on; one that is longer is named before any computation', async () => {
  const { runtime, trainer } = await open()
  const items = (await exampleItems(runtime)).slice(0, 3)
  const lengths = items.map(({ prompt, completion }) => prompt.length + completion.length)
  const longest = Math.max(...lengths)
  const limit = (turnTokensMax: number) => trainer.step(items, { ...settings, turnTokensMax }, none)
  assert.equal((await limit(longest)).adapter.sha256, (await limit(0)).adapter.sha256)
  await assert.rejects(
    limit(longest - 1),
    ({ code, details }: InstarError) =>
      code === 'context_length_exceeded' &&
      details.item === lengths.indexOf(longest) &&
      details.tokens === longest &&
      details.context === longest - 1,
  )
  await runtime.close()
})

test('an update that is not finite names the turn that makes it so, and none if all do', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  // The weight of the token times its advantage exceeds the range of float32.
  const huge = (item: TrainItem): TrainItem => ({
    ...item,
    advantage: 3e38,
    behaviourLogprobs: item.behaviourLogprobs.map((value) => value - 8),
  })
  const unbounded = { ...settings, tisCap: 1e6, sequenceMask: 1e9, klWeight: 0 }
  const fault = async (batch: readonly TrainItem[]): Promise<unknown> => {
    const error: unknown = await trainer.step(batch, unbounded, none).catch((thrown: unknown) => thrown)
    assert.ok(error instanceof InstarError && error.code === 'update_not_finite', String(error))
    return error.details.item
  }
  assert.equal(await fault(items.map((item, at) => (at === 4 ? huge(item) : item))), 4)
  assert.equal(await fault(items.map(huge)), undefined)
  await trainer.step(items, unbounded, none)
  await runtime.close()
})

test('a turn with a token whose embedding is not a number is named before any gradient', async () => {
  const untied = { ...config, tiedHead: false }
  const weights = initialWeights(untied, 17)
  const last = config.vocabulary - 1
  weights.get('model.embed_tokens.weight')?.data.fill(Number.NaN, last * config.hiddenSize)
  const runtime = await createRuntime({
    config: untied,
    weights: weightsFrom(weights),
    base: 'damaged',
    engine: 'onnx',
    threads: 1,
  })
  const trainer = new Trainer(runtime, 'damaged')
  const item = (prompt: number[]): TrainItem => ({
    prompt,
    completion: [4, 5],
    behaviourLogprobs: [-4, -4],
    temperature: 1,
    advantage: 0.5,
    hintPrompt: null,
  })
  await assert.rejects(
    trainer.step([item([1, 2]), item([3, last, 7])], settings, none),
    (error: InstarError) => error.code === 'update_not_finite' && error.details.item === 1,
  )
  assert.ok(Number.isFinite((await trainer.step([item([1, 2])], settings, none)).figures.loss))
  await runtime.close()
})

test('two processes compute the same adapter and optimizer state', async () => {
  const once = async (): Promise<string> => {
    const child = spawn(
      process.execPath,
      [new URL('../../../test/kit/golden/policy/one-step.ts', import.meta.url).pathname],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    let text = ''
    child.stdout.setEncoding('utf8')
    for await (const piece of child.stdout) text += String(piece)
    return text.trim()
  }
  const [a, b] = await Promise.all([once(), once()])
  assert.match(a, /^[0-9a-f]{64} [0-9a-f]{64}$/)
  assert.equal(a, b)
  const { runtime, trainer } = await open()
  const own = await trainer.step(await exampleItems(runtime), settings, none)
  assert.equal(`${own.adapter.sha256} ${own.stateSha256}`, a)
  await runtime.close()
})

test('99 % of the numbers of updates by onnx and wasm differ by less than 2e-5', async () => {
  const updates = []
  for (const engine of ['onnx', 'wasm'] as const) {
    const { runtime, trainer } = await open(engine)
    const items = await exampleItems(runtime)
    const { adapter, figures } = await trainer.step(items, settings, none)
    updates.push({
      figures,
      values: [...readAdapter(adapter, config).modules.values()].flatMap(({ a, b }) => [...a.data, ...b.data]),
    })
    await runtime.close()
  }
  const [onnx, wasm] = updates as [(typeof updates)[number], (typeof updates)[number]]
  assert.ok(Math.abs(onnx.figures.loss - wasm.figures.loss) < 1e-4)
  assert.ok(Math.abs(onnx.figures.gradNorm / wasm.figures.gradNorm - 1) < 1e-4)
  const apart = onnx.values.map((value, at) => Math.abs(value - (wasm.values[at] as number))).sort((a, b) => a - b)
  assert.ok((apart[Math.floor(apart.length * 0.99)] as number) < 2e-5, `${apart[Math.floor(apart.length * 0.99)]}`)
})

test('token weights: truncation, masks, a denominator per term, dropped hints, KL scaled by the advantages', () => {
  const turns = [
    { advantage: 1, behaviour: [-1, -1], old: [-0.9, -1.2], hint: null },
    { advantage: -1, behaviour: [-1, -1], old: [-1, -1], hint: { without: [-1, -2], with: [-3, -4] } },
    {
      advantage: -0.5,
      behaviour: [-5, -1, -1, -1],
      old: [-1.2, -4.8, -1, -1],
      hint: { without: [-3, -3, -3, -3], with: [-3.01, -3, -3.01, -3] },
    },
    { advantage: 0, behaviour: [-1, -1], old: [-3, -3], hint: null },
  ]
  const [first, failed, unhelpful, masked] = tokenWeights(turns, {
    ...settings,
    tisCap: 2,
    sequenceMask: 2,
    opdWeight: 1,
    klWeight: 0.1,
    klFullAtAdvantage: 1.25,
  })
  const near = (actual: ArrayLike<number> | undefined, expected: number[]): void => {
    expected.forEach((value, at) =>
      assert.ok(Math.abs((actual?.[at] ?? NaN) - value) < 1e-7, `${at}: ${actual?.[at]}, expected ${value}`),
    )
  }
  near(first?.policy, [Math.exp(0.1) / 10, Math.exp(-0.2) / 10])
  near(unhelpful?.policy, [2 / 10, Math.exp(-3.8) / 10, 0.1, 0.1])
  near(masked?.policy, [0, 0])
  assert.deepEqual([first?.masked, masked?.masked], [false, true])
  assert.deepEqual([failed?.hintDropped, unhelpful?.hintDropped], [false, true])
  // Two tokens have a hint that is not dropped. Ten tokens share the KL weight, which is halved: mean|A| is 0.625.
  assert.deepEqual([first?.opd, failed?.opd, unhelpful?.opd], [0, 0.5, 0])
  near([first?.kl ?? NaN], [(0.1 * 0.5) / 10])
})
