/** A trainer on a training server: the records of an update, and its arithmetic against the embedded trainer's. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { TrainItem } from '@instar/engine/port'
import { createTurnReader, getBlob } from '@instar/log'
import { adapterDistance } from '@instar/policy'
import { readSafetensors } from '@instar/policy/checkpoints/safetensors'
import { completionLogprobs, ownLogprobs } from '@instar/policy/forward'
import { uniform } from '@instar/policy/random'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { Trainer } from '@instar/policy/step'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import { rowFits } from '@instar/tinker'
import { stepSettings, trainItem } from '../train-item.ts'
import { scoreRow } from './items.ts'
import { trainingServer } from './open.ts'
import { verify } from '../verify.ts'
import {
  exampleModel,
  openLine,
  STEP as STEP_SETTINGS,
  startTrainer,
  untilWaits,
} from '../../../../../test/kit/remote-line.ts'

const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 })
const items = await exampleItems(runtime)
const model = exampleModel([3, 1, 4, 1, 5, 9, 2, 6])
after(() => runtime.close())

test('an update is bound, scored, requested and computed, each record before what follows from it', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new EmbeddedTrainingServer(runtime, { rowsMax: 4 })
  const started = await startTrainer(line.log, { server }, model)
  await untilWaits(started, 'verdict')
  const types = (await line.records()).filter(({ topic }) => topic === 'updates').map(({ event }) => event.type)
  assert.deepEqual(types, [
    'BatchSealed',
    'TrainerBound',
    'TrainerScored',
    'UpdateRequested',
    'TrainerScored',
    'UpdateRequested',
    'TrainerScored',
    'UpdateComputed',
  ])
  const [computed] = await line.events('UpdateComputed')
  assert.ok(computed?.remote)
  assert.equal(computed.figures.steps, 2)
  assert.equal(
    computed.figures.tokens,
    items.reduce((sum, { completion }) => sum + completion.length, 0),
  )
  assert.ok((computed.figures.klParent ?? 0) > 0)
  // Three scorings of the policy, one of the base; hinted prompts have eight tokens; two steps.
  const sum = (of: (item: TrainItem) => number): number => items.reduce((all, item) => all + of(item), 0)
  const [prompt, response] = [sum((item) => item.prompt.length), sum(({ completion }) => completion.length)]
  assert.partialDeepStrictEqual(computed.figures, {
    forwardPromptTokens: 4 * prompt,
    forwardResponseTokens: 4 * response,
    teacherTokens: sum(({ hintPrompt, completion }) => (hintPrompt ? 8 + completion.length : 0)),
    backwardPromptTokens: 2 * prompt,
    backwardResponseTokens: 2 * response,
  })
  const bytes = await getBlob(line.log, computed.adapter, computed.blobsAt)
  assert.equal(bytes.length, computed.adapterBytes)
  // Ten rows in parts of four: three forwards a pass, three forward_backwards a step.
  const trained = server.ran.filter((one) => one.model === computed.remote?.model)
  assert.deepEqual(
    trained.map(({ seq }) => seq),
    Array.from({ length: trained.length }, (_, at) => at + 1),
  )
  assert.equal(trained.length, 3 * 3 + 2 * 4 + 2)
  await started.trainer.stop()
})

/** Numbers of an adapter, or of Adam's first moments, by tensor name. */
const tensorsOf = (bytes: Uint8Array): Map<string, number[]> =>
  new Map([...readSafetensors(bytes, 'x')].map(([name, { data }]) => [name, Array.from(data as Float32Array)]))

/** ‖a − b‖ / ‖b‖ over all tensors. */
const relative = (a: Map<string, number[]>, b: Map<string, number[]>): number => {
  let [difference, norm] = [0, 0]
  assert.deepEqual([...a.keys()].sort(), [...b.keys()].sort())
  for (const [name, values] of b)
    values.forEach((value, at) => {
      difference += ((a.get(name)?.[at] ?? Number.NaN) - value) ** 2
      norm += value ** 2
    })
  return Math.sqrt(difference / norm)
}

/** A hint under which the model's answer to an item is less likely; else it is dropped. */
const discouraging = async (): Promise<number[]> => {
  const logprob = async (item: TrainItem, prompt: readonly number[]): Promise<number> => {
    const [rows] = await completionLogprobs(runtime, [{ ...item, prompt, temperature: 1, slot: null }])
    return ownLogprobs(rows as Float32Array, item.completion).reduce((sum, value) => sum + value, 0)
  }
  const hinted = items.filter(({ hintPrompt }) => hintPrompt !== null)
  for (let seed = 1; ; seed++) {
    const next = uniform(seed)
    const prompt = Array.from({ length: 12 }, () => Math.floor(next() * config.vocabulary))
    const gaps = await Promise.all(
      hinted.map(async (item) => (await logprob(item, prompt)) - (await logprob(item, item.prompt))),
    )
    if (gaps.filter((gap) => gap < -0.2).length >= 2) return prompt
  }
}

/** A model that is unloaded between a pass and its step. */
const leaveGradients = async (server: EmbeddedTrainingServer): Promise<void> => {
  const { model: left } = await server.createModel(await server.openSession(), { rank: STEP_SETTINGS.rank, seed: 3 })
  const row = { tokens: [1, 2, 3], targets: [2, 3, 4], logprobs: [-4, -4, -4], advantages: [1, 1, 1] }
  for (const pass of server.prepareForwardBackward(left, 1, [row])) await server.send(pass)
  await server.unload(left)
}

for (const [loss, reduction, keepsGradients] of [
  ['hybrid', 'sum', false],
  ['hybrid', 'sequence_mean', false],
  ['hybrid', 'sequence_mean', true],
  ['binary', 'token_mean', false],
  ['opd', 'sequence_mean', false],
] as const)
  test(`${loss} on a server with the reduction ${reduction}${keepsGradients ? ' that keeps gradients of unloaded models' : ''}: the embedded trainer has the same gradient and adapter`, async () => {
    const taught = exampleModel(await discouraging())
    const mixed = items.map((item, at) => ({ ...item, temperature: at % 2 === 0 ? 1 : item.temperature }))
    const line = await openLine()
    await line.turns(mixed)
    const server = new EmbeddedTrainingServer(runtime, { reduction, rowsMax: 4, keepsGradients })
    if (keepsGradients) await leaveGradients(server)
    // One step, and then three.
    const settings = { loss, step: { ...STEP_SETTINGS, epochs: 1, klFullAtAdvantage: 0, klWeight: 0.2 } }
    const started = await startTrainer(line.log, { server }, taught, settings)
    await untilWaits(started, 'verdict')
    await started.trainer.stop()
    const [sealed] = await line.events('BatchSealed')
    const [computed] = await line.events('UpdateComputed')
    assert.ok(sealed && computed?.remote)
    assert.equal(sealed.settings.sampledTokens, 1)
    assert.equal((computed.figures.opdLoss ?? 0) > 0, loss !== 'binary')

    const reader = createTurnReader(line.log, (turn) => started.trainer.state.turns.turns.get(turn))
    const same = await Promise.all(sealed.items.map((item) => trainItem({ reader, model: taught }, item, loss)))
    const embedded = await new Trainer(runtime, 'example').step(
      same,
      { ...stepSettings(sealed), alpha: 8, klParentMax: Infinity, klBaseMax: Infinity },
      { adapter: null, state: null },
    )
    const remoteAdam = writeAdamOf(server, computed.remote.statePath)
    // Adam's first moment after one step is (1 − β1) · gradient.
    const moments = (bytes: Uint8Array): Map<string, number[]> =>
      new Map([...tensorsOf(bytes)].filter(([name]) => name.startsWith('first:')))
    assert.ok(relative(moments(remoteAdam), moments(embedded.state)) < 1e-5)
    const remote = await getBlob(line.log, computed.adapter, computed.blobsAt)
    assert.ok(relative(tensorsOf(remote), tensorsOf(embedded.adapter.weights)) < 1e-5)
    for (const name of ['loss', 'policyLoss', 'opdLoss', 'klLoss', 'gradNorm', 'tokens', 'droppedHints'] as const)
      assert.ok(Math.abs((computed.figures[name] ?? Number.NaN) - (embedded.figures[name] ?? 0)) < 1e-5, name)
  })

const writeAdamOf = (server: EmbeddedTrainingServer, path: string): Uint8Array => {
  const saved = server.saved.get(path)
  assert.ok(saved)
  return saved.adam
}

test('adapters after three steps differ by less than 1e-4 from those of the embedded trainer', async () => {
  const line = await openLine()
  await line.turns(items.map((item) => ({ ...item, temperature: 1 })))
  const server = new EmbeddedTrainingServer(runtime)
  const started = await startTrainer(line.log, { server }, model, { step: { ...STEP_SETTINGS, epochs: 3 } })
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  const [[sealed], [computed]] = [await line.events('BatchSealed'), await line.events('UpdateComputed')]
  assert.ok(sealed && computed)
  const reader = createTurnReader(line.log, (turn) => started.trainer.state.turns.turns.get(turn))
  const same = await Promise.all(sealed.items.map((item) => trainItem({ reader, model }, item, sealed.loss)))
  const bounds = { alpha: 8, klParentMax: Infinity, klBaseMax: Infinity }
  const none = { adapter: null, state: null }
  const embedded = await new Trainer(runtime, 'example').step(same, { ...stepSettings(sealed), ...bounds }, none)
  const remote = await getBlob(line.log, computed.adapter, computed.blobsAt)
  const moved = adapterDistance(remote, embedded.adapter.weights)
  assert.ok(moved < 1e-4, `${moved}`)
})

test('the next batch continues on the same model; after a rejection and after a rollback a new one has the parent’s state', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new EmbeddedTrainingServer(runtime)
  const started = await startTrainer(line.log, { server }, model)
  const next = async (n: number, version: number): Promise<void> => {
    await line.turns(items, n * 10, version)
    await untilWaits(started, 'compute')
    await untilWaits(started, 'verdict')
  }
  await untilWaits(started, 'verdict')
  await line.verdict(true)
  await untilWaits(started, 'turns')
  await next(1, 1)
  assert.equal((await line.events('TrainerBound')).length, 1)
  await line.verdict(false)
  await untilWaits(started, 'turns')
  await next(2, 1)
  const [first, second, third] = await line.events('UpdateComputed')
  const bound = await line.events('TrainerBound')
  assert.deepEqual(
    bound.map(({ epoch, statePath, parent }) => [epoch, statePath, parent.version]),
    [
      [1, null, 0],
      [2, first?.remote?.statePath, 1],
    ],
  )
  assert.equal(server.saved.has(second?.remote?.statePath ?? ''), false, 'the checkpoint of the rejected update')
  await line.verdict(true)
  await line.rollback(1)
  await untilWaits(started, 'turns')
  await next(3, 1)
  const [, , last] = await line.events('TrainerBound')
  assert.deepEqual([last?.statePath, last?.parent.version], [first?.remote?.statePath, 1])
  assert.ok(third)
  await started.trainer.stop()
})

for (const keepStates of [1, 2])
  test(`checkpoints of the newest versions and of the parent stay on the server (keepStates ${keepStates})`, async () => {
    const line = await openLine()
    const server = new EmbeddedTrainingServer(runtime)
    const started = await startTrainer(line.log, { server }, model, { keepStates })
    for (let n = 0; n < 4; n++) {
      await line.turns(items, n * 10, n)
      await untilWaits(started, 'verdict')
      await line.verdict(true)
      await untilWaits(started, 'turns')
    }
    const paths = (await line.events('UpdateComputed')).map(({ remote }) => remote?.statePath ?? '')
    assert.deepEqual(
      paths.map((path) => server.saved.has(path)),
      [false, false, true, true],
    )
    await started.trainer.stop()
  })

test('a turn that exceeds a request of the server is left out, the batch is computed, and verify knows it', async () => {
  const line = await openLine()
  await line.turns(items)
  const wire = { format: 'json', rowsMax: 1024, bytesMax: 5_000_000, adapters: 'archive' } as const
  const rows = items.map(({ prompt, completion }) => scoreRow(prompt, completion))
  const fitting = (bytesMax: number): number => rows.filter((row) => rowFits({ ...wire, bytesMax }, row, true)).length
  let bytesMax = 0
  while (fitting(bytesMax) < items.length / 2) bytesMax += 100
  const server = new EmbeddedTrainingServer(runtime, { bytesMax })
  const started = await startTrainer(line.log, { server }, model)
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  const [computed] = await line.events('UpdateComputed')
  const [scored] = await line.events('TrainerScored')
  assert.ok(scored && computed)
  assert.ok(scored.dropped.length > 0 && scored.rows.length > 0)
  assert.equal(scored.rows.length + scored.dropped.length, items.length)
  const { droppedItems, dropped_context_length_exceeded } = computed.figures
  assert.deepEqual([droppedItems, dropped_context_length_exceeded], [scored.dropped.length, scored.dropped.length])
  await line.verdict(true)
  assert.equal((await verify({ log: line.log, learner: null, model }, 'policy', null)).first, null)
})

test('a turn beyond the context that the server states is left out before anything is sent, and verify knows it', async () => {
  const line = await openLine()
  await line.turns(items)
  const lengths = items
    .map(({ prompt, hintPrompt, completion }) => Math.max(prompt.length, hintPrompt ? 8 : 0) + completion.length)
    .sort((a, b) => a - b)
  const contextLength = lengths[Math.floor(lengths.length / 2)] ?? 0
  const tooLong = lengths.filter((length) => length > contextLength).length
  assert.ok(tooLong > 0)
  const server = new EmbeddedTrainingServer(runtime, { contextLength })
  const started = await startTrainer(line.log, { server }, model)
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  const [[computed], [scored]] = [await line.events('UpdateComputed'), await line.events('TrainerScored')]
  assert.ok(scored && computed)
  assert.equal(scored.rows.length, items.length - tooLong)
  assert.deepEqual(
    scored.dropped.map(({ reason }) => reason),
    Array.from({ length: tooLong }, () => 'context_length_exceeded'),
  )
  assert.equal(computed.figures.dropped_context_length_exceeded, tooLong)
  await line.verdict(true)
  assert.equal((await verify({ log: line.log, learner: null, model }, 'policy', null)).first, null)
})

test('a batch of turns that are all beyond the context of the server has failed, and the next one is taken', async () => {
  const line = await openLine()
  await line.turns(items)
  const started = await startTrainer(
    line.log,
    { server: new EmbeddedTrainingServer(runtime, { contextLength: 1 }) },
    model,
  )
  await untilWaits(started, 'turns')
  await started.trainer.stop()
  const [failed] = await line.events('UpdateFailed')
  assert.match(failed?.reason ?? '', /context_length_exceeded/)
  assert.deepEqual(await line.events('TrainerScored'), [])
})

test('a step beyond the bound of the KL is the last of its batch, and the next batch has a smaller learning rate', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new EmbeddedTrainingServer(runtime)
  const config = { step: { ...STEP_SETTINGS, epochs: 3, learningRate: 0.02, klParentMax: 1e-3, klBaseMax: 10 } }
  const started = await startTrainer(line.log, { server }, model, config)
  await untilWaits(started, 'verdict')
  const [computed] = await line.events('UpdateComputed')
  assert.equal(computed?.figures.steps, 1)
  assert.ok((computed?.figures.klParent ?? 0) > 1e-3)
  await line.verdict(true)
  await untilWaits(started, 'turns')
  await line.turns(items, 10, 1)
  await untilWaits(started, 'compute')
  await untilWaits(started, 'verdict')
  const rates = (await line.events('BatchSealed')).map(({ settings }) => settings.learningRate)
  assert.equal(rates[0], 0.02)
  assert.ok((rates[1] ?? 1) < 0.02 && (rates[1] ?? 0) >= 0.005, `${rates[1]}`)
  await started.trainer.stop()
})

test('verify makes every request again from the log, and names the first that differs', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new EmbeddedTrainingServer(runtime, { reduction: 'sequence_mean', rowsMax: 4 })
  const started = await startTrainer(line.log, { server }, model)
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  const report = await verify({ log: line.log, learner: null, model }, 'policy', null)
  assert.equal(report.first, null)
  assert.deepEqual(
    report.batches.map(({ mode, ok, version }) => ({ mode, ok, version })),
    [{ mode: 'requests', ok: true, version: 1 }],
  )
  assert.deepEqual(Object.keys(report.proves), ['requests'])
  // Another chat template: the hinted prompts are others than those that were sent.
  const other = await verify({ log: line.log, learner: null, model: exampleModel([7, 7, 7]) }, 'policy', 1)
  assert.equal(other.ok, false)
  assert.match(other.first?.what ?? '', /^scoring of the base: request \d+ \(forward\) has other bytes than recorded/)
})

test('a training server and an adapter from elsewhere are refused together, before a connection', () => {
  const config = { server: 'tinker+http://127.0.0.1:9', serverModel: null, serverKey: null }
  assert.ok(trainingServer(config))
  assert.equal(trainingServer({ ...config, server: 'embedded' }, '/lora'), null)
  assert.throws(() => trainingServer(config, '/lora'), {
    code: 'not_available',
    details: { field: 'INSTAR_BASE_ADAPTER' },
  })
})

/** Two sessions of four turns, a second candidate of one answer, and a lone turn. */
const conversations = async (): Promise<TrainItem[]> => {
  const next = uniform(31)
  const ids = (count: number): number[] => Array.from({ length: count }, () => Math.floor(next() * config.vocabulary))
  const found: TrainItem[] = []
  const add = async (prompt: number[], completion: number[], advantage: number): Promise<void> => {
    const [rows] = await completionLogprobs(runtime, [{ prompt, completion, temperature: 1, slot: null }])
    const behaviourLogprobs = [...ownLogprobs(rows as Float32Array, completion)]
    const hintPrompt = found.length % 3 === 1 ? [...prompt, ...ids(4)] : null
    found.push({ prompt, completion, temperature: 1, advantage, behaviourLogprobs, hintPrompt })
  }
  for (let session = 0; session < 2; session++) {
    let before: number[] = []
    for (let turn = 0; turn < 4; turn++) {
      const [prompt, completion] = [[...before, ...ids(7)], ids(4)]
      await add(prompt, completion, turn % 2 === 0 ? 0.6 : -0.5)
      before = [...prompt, ...completion]
    }
  }
  const { prompt, completion } = found[3] as TrainItem
  await add([...prompt], [...completion], 0.3)
  await add(ids(6), ids(5), -0.4)
  return found
}

for (const reduction of ['sum', 'sequence_mean', 'token_mean'] as const)
  test(`turns that extend each other share a row, with the same gradient (${reduction}), fewer tokens, and verify knows it`, async () => {
    const turns = await conversations()
    const settings = { step: { ...STEP_SETTINGS, epochs: 2, klWeight: 0.2, klFullAtAdvantage: 0 } }
    const trained = async (sharesPrefixes: boolean, config: Record<string, unknown> = settings) => {
      const line = await openLine()
      await line.turns(turns)
      const server = new EmbeddedTrainingServer(runtime, { reduction, sharesPrefixes })
      const started = await startTrainer(line.log, { server }, model, config)
      await untilWaits(started, 'verdict')
      await started.trainer.stop()
      const [computed] = await line.events('UpdateComputed')
      assert.ok(computed?.remote)
      const { first } = await verify({ log: line.log, learner: null, model }, 'policy', null)
      assert.equal(first, null)
      return { computed, adam: writeAdamOf(server, computed.remote.statePath) }
    }
    const apart = await trained(false)
    const shared = await trained(true)
    assert.ok(relative(tensorsOf(shared.adam), tensorsOf(apart.adam)) < 1e-6)
    for (const name of ['loss', 'policyLoss', 'opdLoss', 'klLoss', 'klParent', 'gradNorm'] as const)
      assert.ok(Math.abs((shared.computed.figures[name] ?? NaN) - (apart.computed.figures[name] ?? NaN)) < 1e-6, name)
    // Rows of 44, 44 and 11 tokens instead of ten; two steps.
    const tokens = (figures: Record<string, number>) => [figures.backwardPromptTokens, figures.backwardResponseTokens]
    const sum = (of: (item: TrainItem) => number): number => turns.reduce((all, item) => all + of(item), 0)
    assert.deepEqual(tokens(apart.computed.figures), [2 * sum((item) => item.prompt.length), 2 * 41])
    assert.deepEqual(tokens(shared.computed.figures), [2 * (28 + 28 + 6), 2 * (16 + 16 + 5)])
    const off = await trained(true, { ...settings, sharedPrefixes: false })
    assert.deepEqual(tokens(off.computed.figures), tokens(apart.computed.figures))
  })

test('verify computes the updates of a server again there, from the parent’s state, and deletes what it made', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new EmbeddedTrainingServer(runtime, { reduction: 'sequence_mean', keepsGradients: true })
  const started = await startTrainer(line.log, { server }, model)
  await untilWaits(started, 'verdict')
  await line.verdict(true)
  await untilWaits(started, 'turns')
  await line.turns(items, 10, 1)
  await untilWaits(started, 'compute')
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  const kept = [[...server.saved.keys()], [...server.models.keys()]]
  const ports = { log: line.log, learner: null, model, server }
  const report = await verify(ports, 'policy', null)
  assert.equal(report.first, null)
  assert.deepEqual(
    report.batches.map(({ mode, ok, version, distance }) => ({ mode, ok, version, distance })),
    [
      { mode: 'server', ok: true, version: 1, distance: 0 },
      { mode: 'server', ok: true, version: 2, distance: 0 },
    ],
  )
  assert.deepEqual(Object.keys(report.proves), ['server'])
  assert.deepEqual([[...server.saved.keys()], [...server.models.keys()]], kept)
  // A server that computes otherwise.
  const other = new EmbeddedTrainingServer(runtime, { reduction: 'sum' })
  const differs = await verify({ ...ports, server: other }, 'policy', 1)
  assert.equal(differs.ok, false)
  assert.match(differs.first?.what ?? '', /differs by [\d.e+-]+ of its change/)
  // The parent's state is gone.
  server.saved.clear()
  await assert.rejects(verify(ports, 'policy', 2), { code: 'trainer_state_lost' })
})
