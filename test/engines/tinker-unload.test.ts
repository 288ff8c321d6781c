/** An unload that a training server does not end: it is given up after its limit, by the client, the probe and the trainer. */
import { connectTrainer } from '@instar/tinker'
import { createTrainer, trainerConfig } from '@instar/trainer'
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { exampleModel, now, openLine, STEP, untilWaits, type RemoteLine, type Started } from '../kit/remote-line.ts'
import { ScriptedTinker, type TinkerBehaviour, type TinkerJob } from './scripted-tinker.ts'

const never = new Promise<void>(() => undefined)
/** An open request has an hour, and an unload a moment. */
const LIMITS = { unloadMs: 50 }
const ROWS = [{ tokens: [1, 2, 3], targets: [2, 3, 4] }]

const ITEMS = Array.from({ length: 6 }, (_, at) => ({
  prompt: [1 + at, 9, 20 + at],
  completion: [30 + at, 5, 7 + at, 40],
  temperature: 1,
  advantage: at % 2 === 0 ? 1 : -1,
  hintPrompt: null,
  behaviourLogprobs: [-4, -4, -4, -4],
}))

const open = async (t: TestContext, behaviour: TinkerBehaviour = {}): Promise<ScriptedTinker> => {
  const scripted = await new ScriptedTinker(behaviour).start()
  t.after(() => scripted.kill())
  return scripted
}

const connect = async (t: TestContext, { url }: ScriptedTinker) => {
  const server = await connectTrainer(url, { key: null, limits: LIMITS })
  t.after(() => server.close())
  return server
}

test('an unload behind a request without an end is trainer_lost after its limit', { timeout: 20_000 }, async (t) => {
  const scripted = await open(t, { before: ({ kind }) => (kind === 'forward' ? never : undefined) })
  const server = await connect(t, scripted)
  const session = await server.openSession()
  const { model } = await server.createModel(session, { base: 'base', rank: 4, seed: 3, modelSeq: 0 })
  const passing = new AbortController()
  const pass = assert.rejects(server.send(server.prepareForward(model, 1, ROWS)[0]!, passing.signal), /enough/)
  await assert.rejects(server.unload(model), {
    code: 'trainer_lost',
    message: `${scripted.url} has not unloaded ${model} after 50 ms`,
  })
  assert.equal(scripted.asked('unload_model').length, 0)
  passing.abort(new Error('enough'))
  await pass
})

test('a probe whose unload does not end is trainer_lost after its limit', { timeout: 20_000 }, async (t) => {
  const scripted = await open(t, { before: ({ kind }) => (kind === 'unload_model' ? never : undefined) })
  const server = await connect(t, scripted)
  await assert.rejects(server.probe('base', 4), { code: 'trainer_lost', message: /has not unloaded model_/ })
})

const start = async (t: TestContext, scripted: ScriptedTinker): Promise<{ line: RemoteLine; started: Started }> => {
  const line = await openLine()
  await line.turns(ITEMS)
  const fatal: Error[] = []
  const { seed: _, ...step } = STEP
  const connectOnce = (signal: AbortSignal) => connectTrainer(scripted.url, { key: null, limits: LIMITS, signal })
  const trainer = createTrainer(
    {
      log: line.log,
      model: { ...exampleModel([1, 2, 3, 4]), vocabulary: 64 },
      now,
      onFatal: (error) => void fatal.push(error),
      server: { connect: connectOnce, trainer: 't1', baseModel: null },
    },
    trainerConfig.parse({ batchSize: 6, batchMax: 6, step: { ...step, epochs: 2, klBaseCoefficient: 0.1 } }),
  )
  t.after(() => trainer.stop())
  await trainer.start()
  return { line, started: { trainer, fatal } }
}

test(
  'an unload without an end while the line is taken up: another session takes it up',
  { timeout: 60_000 },
  async (t) => {
    const hung: TinkerJob[] = []
    const scripted = await open(t)
    // The probe has the first session.
    const isOfLine = ({ model }: TinkerJob): boolean =>
      scripted.models.get(model)?.session !== [...scripted.sessions][0]
    scripted.behaviour.before = (job) => {
      if (job.kind !== 'unload_model' || !isOfLine(job) || hung.length > 0) return
      hung.push(job)
      return never
    }
    const { line, started } = await start(t, scripted)
    await untilWaits(started, 'verdict')
    // Of the probe, of the binding that failed, and of the next one.
    assert.deepEqual([hung.length, scripted.sessions.size], [1, 3])
    assert.deepEqual(await line.events('UpdateFailed'), [])
    assert.equal((await line.events('TrainerBound')).length, 1)
  },
)

test(
  'a scoring that fails beside one without an end: another model computes the batch',
  { timeout: 60_000 },
  async (t) => {
    const scripted = await open(t)
    const { line, started } = await start(t, scripted)
    await untilWaits(started, 'verdict')
    const [bound] = await line.events('TrainerBound')
    const { model, reference } = bound!
    scripted.behaviour.before = (job) => (job.model === reference ? never : undefined)
    scripted.behaviour.fail = (job) => (job.model === model && job.kind === 'forward' ? 'RESOURCE_EXHAUSTED' : null)
    await line.verdict(true)
    await line.turns(ITEMS, 10, 1)
    await untilWaits(started, 'compute')
    await untilWaits(started, 'verdict')
    const unloads = scripted.asked('unload_model').filter(({ body }) => body['model_id'] === reference)
    assert.equal(unloads.length, 1)
    assert.equal((await line.events('TrainerBound')).length, 2)
    assert.equal((await line.events('UpdateComputed')).length, 2)
    assert.deepEqual(await line.events('UpdateFailed'), [])
  },
)
