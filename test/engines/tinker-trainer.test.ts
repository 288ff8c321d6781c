/** The trainer and the client of packages/tinker against the scripted server, over HTTP: updates, restarts, a server that is down. */
import { getBlob } from '@instar/log'
import type { TrainItem } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import { connectTrainer, type Limits } from '@instar/tinker'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { exampleModel, now, openLine, STEP, untilWaits, type RemoteLine, type Started } from '../kit/remote-line.ts'
import { ScriptedTinker, type TinkerJob } from './scripted-tinker.ts'

const model = { ...exampleModel([1, 2, 3, 4]), vocabulary: 64 }
const LIMITS = { submitMs: 6000, resultMs: 30_000, connectMs: 2000, answerMs: 10_000 }

/** Turns with the log-probs of the scripted base. */
const turnsOf = async (url: string, key: string): Promise<TrainItem[]> => {
  const server = await connectTrainer(url, { key, limits: LIMITS })
  const session = await server.openSession()
  const { model: base } = await server.createModel(session, { base: 'base', rank: 4, seed: 0, modelSeq: 0 })
  const items = Array.from({ length: 6 }, (_, at) => ({
    prompt: [1 + at, 9, 20 + at],
    completion: [30 + at, 5, 7 + at, 40],
    temperature: 1,
    advantage: at % 2 === 0 ? 1 : -1,
    hintPrompt: null,
  }))
  const rows = items.map(({ prompt, completion }) => ({
    tokens: [...prompt, ...completion.slice(0, -1)],
    targets: [...prompt.slice(1), ...completion],
  }))
  const [request] = server.prepareForward(base, 1, rows)
  const { result } = await server.send(request!)
  await server.close()
  return items.map((item, at) => ({ ...item, behaviourLogprobs: Array.from(result.logprobs[at]!.subarray(-4)) }))
}

/** A trainer of batches of six turns, not yet started. */
const startOn = (line: RemoteLine, url: string, key: string | null, limits: Partial<Limits> = LIMITS): Started => {
  const fatal: Error[] = []
  const { seed: _, ...step } = STEP
  const trainer = createTrainer(
    {
      log: line.log,
      model,
      now,
      onFatal: (error) => void fatal.push(error),
      server: {
        connect: (signal) => connectTrainer(url, { key, limits, signal }),
        trainer: 't1',
        baseModel: null,
      },
    },
    trainerConfig.parse({ batchSize: 6, batchMax: 6, step: { ...step, epochs: 2 } }),
  )
  return { trainer, fatal }
}

test(
  'two updates over HTTP, with the server down at the start and restarted between them',
  { timeout: 120_000 },
  async (t) => {
    const key = 'tml-secret-of-the-test'
    const scripted = await new ScriptedTinker({ key }).start()
    t.after(() => scripted.kill())
    const url = `tinker+${scripted.url}`
    const items = await turnsOf(url, key)
    const line = await openLine()
    await line.turns(items)
    await scripted.kill()
    const started = startOn(line, url, key)
    const { trainer, fatal } = started
    await trainer.start()
    await untilWaits(started, 'trainer_lost')
    await scripted.start()
    await untilWaits(started, 'verdict')
    await line.verdict(true)
    await untilWaits(started, 'turns')
    await scripted.restart()
    await line.turns(items, 10, 1)
    await untilWaits(started, 'compute')
    await untilWaits(started, 'verdict')
    const [first, second] = await line.events('UpdateComputed')
    const bound = await line.events('TrainerBound')
    assert.deepEqual(
      bound.map(({ epoch, statePath }) => [epoch, statePath]),
      // The second binding resumed the model, which the restart had unloaded.
      bound.length === 2
        ? [
            [1, null],
            [2, first?.remote?.statePath],
          ]
        : assert.fail(`${bound.length} bindings`),
    )
    for (const computed of [first, second]) {
      assert.ok(computed?.remote)
      const weights = await getBlob(line.log, computed.adapter, computed.blobsAt)
      assert.equal(adapterFromWeights(weights).sha256, computed.adapter)
    }
    assert.notEqual(first?.adapter, second?.adapter)
    assert.ok((second?.figures.klParent ?? 0) > 0)
    for (const { event } of await line.records())
      assert.ok(!JSON.stringify(event, (_key, value: unknown) => value).includes(key), 'the key is on the log')
    await trainer.stop()
    assert.deepEqual(fatal, [])
  },
)

/** Models of the line: the probe's have the seed 7, the others that are not trained 0. */
const isTrained = (scripted: ScriptedTinker, { model: name }: TinkerJob): boolean =>
  ![0, 7].includes(scripted.models.get(name)?.seed ?? 0)

for (const format of ['protobuf', 'json'] as const)
  test(
    `turns with log-probs that are NaN by ${format} are left out, and the others trained on`,
    { timeout: 60_000 },
    async (t) => {
      const scripted = await new ScriptedTinker({ format }).start()
      t.after(() => scripted.kill())
      const items = await turnsOf(scripted.url, '')
      const line = await openLine()
      await line.turns(items)
      // Of the six rows of the line's passes; those of the probe are two.
      scripted.behaviour.logprobs = (rows) =>
        rows.map((row, at) => (rows.length === 6 && at % 2 === 1 ? row.map(() => Number.NaN) : row))
      const started = startOn(line, scripted.url, null)
      await started.trainer.start()
      await untilWaits(started, 'verdict')
      const [first] = await line.events('TrainerScored')
      assert.equal(first?.rows.length, 3)
      assert.deepEqual(
        first.dropped.map(({ reason }) => reason),
        ['update_not_finite', 'update_not_finite', 'update_not_finite'],
      )
      await started.trainer.stop()
    },
  )

test(
  'a step whose result the server cannot send: five models, then its batch fails alone',
  { timeout: 120_000 },
  async (t) => {
    const scripted = await new ScriptedTinker().start()
    t.after(() => scripted.kill())
    const items = await turnsOf(scripted.url, '')
    const line = await openLine()
    await line.turns(items)
    const steps = new Set<string>()
    scripted.behaviour.retrieve = (job) => {
      if (job.kind !== 'optim_step' || !isTrained(scripted, job) || steps.size > 5) return null
      steps.add(job.model)
      return { status: 500, body: 'Internal Server Error' }
    }
    const started = startOn(line, scripted.url, null, { ...LIMITS, resultMs: 100 })
    await started.trainer.start()
    await untilWaits(started, 'turns')
    const failed = await line.events('UpdateFailed')
    assert.equal(failed.length, 1)
    assert.match(failed[0]!.reason, /^trainer_failed: .*Internal Server Error This happened on 5 models in a row/)
    assert.equal(steps.size, 5)
    scripted.behaviour.retrieve = () => null
    await line.turns(items, 10)
    await untilWaits(started, 'verdict')
    assert.equal((await line.events('UpdateComputed'))[0]?.number, 2)
    await started.trainer.stop()
    assert.deepEqual(started.fatal, [])
  },
)
