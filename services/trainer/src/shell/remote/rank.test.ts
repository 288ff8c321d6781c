/** The rank of a model on a training server: the parent's; of a new line the batch's, which must not hold the line for ever. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, test } from 'node:test'
import { InstarError } from '@instar/events'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import { exampleModel, openLine, startTrainer, STEP, untilWaits } from '../../../../../test/kit/remote-line.ts'
import { verify } from '../verify.ts'

const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 })
const items = (await exampleItems(runtime)).slice(0, 4)
const model = exampleModel([3, 1, 4, 1, 5, 9, 2, 6])
after(() => runtime.close())
const { seed: _, ...step } = STEP
const ranked = (rank: number) => ({ batchSize: 4, batchMax: 4, step: { ...step, epochs: 2, rank } })

type Code = 'trainer_refused' | 'trainer_failed'

/** Takes ranks up to `most`, and a key while `status` is null. */
class RankServer extends EmbeddedTrainingServer {
  readonly changes = new EventEmitter()
  most = 8
  code: Code = 'trainer_refused'
  status = 400
  asked: number[] = []
  check(rank: number): void {
    this.asked.push(rank)
    this.changes.emit('asked')
    if (this.broken > 0) {
      this.broken--
      throw this.error('the device is lost')
    }
    if (rank <= this.most) return
    throw this.error(`LoRA rank ${rank} must be at most ${this.most}`)
  }
  error(message: string): InstarError {
    const request = 'create_model'
    const { status, code } = this
    const details = code === 'trainer_refused' ? { status, request, kind: request } : { kind: request }
    return new InstarError(code, `create_model: ${message}`, details)
  }
  override async probe(...given: unknown[]) {
    this.check(given[1] as number)
    return super.probe()
  }
  override async createModel(session: string, options: { rank: number; seed: number }) {
    this.check(options.rank)
    return super.createModel(session, options)
  }
  /** Requests that fail whatever rank they ask for. */
  broken = 0
  async untilAsked(times: number): Promise<void> {
    while (this.asked.length < times) await once(this.changes, 'asked')
  }
}

for (const code of ['trainer_refused', 'trainer_failed'] as const)
  test(`a batch whose rank the server does not take (${code}) waits until training.rank is corrected, then fails alone`, async () => {
    const line = await openLine()
    const server = new RankServer(runtime)
    server.code = code
    for (let at = 0; at < 3; at++) await line.turns(items, 10 * at)
    let started = await startTrainer(line.log, { server }, model, ranked(64))
    await server.untilAsked(3)
    const waits = code === 'trainer_refused' ? 'trainer_denied' : code
    assert.equal(await untilWaits(started, waits, 'turns'), waits)
    assert.deepEqual(await line.events('UpdateFailed'), [])
    await started.trainer.stop()
    started = await startTrainer(line.log, { server, name: 't2' }, model, ranked(8))
    await untilWaits(started, 'verdict')
    const [failure, ...others] = await line.events('UpdateFailed')
    assert.deepEqual([failure?.number, others], [1, []])
    assert.match(failure?.reason ?? '', new RegExp(`^${code}: .*must be at most 8 The batch has rank 64; .* is 8 now`))
    const [computed] = await line.events('UpdateComputed')
    const [bound] = await line.events('TrainerBound')
    assert.deepEqual([computed?.number, bound?.rank, server.asked.at(-1)], [2, 8, 8])
    await started.trainer.stop()
  })

test('a key that the server refuses spends no batch, though training.rank was changed', async () => {
  const line = await openLine()
  const server = new RankServer(runtime)
  Object.assign(server, { status: 401, most: 0 })
  await line.turns(items)
  let started = await startTrainer(line.log, { server }, model, ranked(16))
  await server.untilAsked(1)
  await started.trainer.stop()
  started = await startTrainer(line.log, { server, name: 't2' }, model, ranked(8))
  await server.untilAsked(3)
  assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
  server.most = 16
  await untilWaits(started, 'verdict')
  const [bound] = await line.events('TrainerBound')
  assert.deepEqual([bound?.rank, await line.events('UpdateFailed')], [16, []])
  await started.trainer.stop()
})

for (const code of ['trainer_refused', 'trainer_failed'] as const)
  for (const times of [1, 7])
    test(`${code} ${times} times whatever the rank spends no batch, though training.rank was changed`, async () => {
      const line = await openLine()
      const server = new RankServer(runtime)
      Object.assign(server, { code, most: 0 })
      await line.turns(items)
      let started = await startTrainer(line.log, { server }, model, ranked(16))
      await server.untilAsked(1)
      await started.trainer.stop()
      Object.assign(server, { most: 16, broken: times })
      started = await startTrainer(line.log, { server, name: 't2' }, model, ranked(8))
      await untilWaits(started, 'verdict', 'turns')
      const [bound] = await line.events('TrainerBound')
      assert.deepEqual([bound?.rank, await line.events('UpdateFailed')], [16, []])
      await started.trainer.stop()
    })

test('a line with versions keeps the rank of its adapter, and verify computes its updates again', async () => {
  const line = await openLine()
  const server = new RankServer(runtime)
  await line.turns(items)
  let started = await startTrainer(line.log, { server }, model, ranked(8))
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  server.restart()
  await line.turns(items, 10, 1)
  started = await startTrainer(line.log, { server, name: 't2' }, model, ranked(64))
  await untilWaits(started, 'compute')
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  assert.deepEqual(await line.events('UpdateFailed'), [])
  assert.deepEqual(
    (await line.events('BatchSealed')).map(({ settings }) => settings.rank),
    [8, 64],
  )
  assert.deepEqual(
    (await line.events('TrainerBound')).map(({ rank }) => rank),
    [8, 8],
  )
  const report = await verify({ log: line.log, learner: null, model, server }, 'policy', null)
  assert.deepEqual(
    report.batches.map(({ mode, distance }) => [mode, distance]),
    [
      ['server', 0],
      ['server', 0],
    ],
  )
})

test('a server that no longer takes the rank of the head is waited for; a rollback to the base ends the wait', async () => {
  const line = await openLine()
  const server = new RankServer(runtime)
  await line.turns(items)
  let started = await startTrainer(line.log, { server }, model, ranked(8))
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  server.restart()
  server.most = 4
  server.asked = []
  await line.turns(items, 10, 1)
  started = await startTrainer(line.log, { server, name: 't2' }, model, ranked(4))
  await server.untilAsked(3)
  assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await line.rollback(0)
  await line.turns(items, 20, 0)
  await untilWaits(started, 'verdict')
  assert.deepEqual(
    (await line.events('UpdateFailed')).map(({ number }) => number),
    [2],
  )
  assert.equal((await line.events('TrainerBound')).at(-1)?.rank, 4)
  assert.equal((await line.events('UpdateComputed')).at(-1)?.number, 3)
  await started.trainer.stop()
})

test('a model of another rank that has computed nothing yet is not used for the next batch', async () => {
  const line = await openLine()
  const server = new RankServer(runtime)
  server.most = 16
  server.before = (kind) => {
    if (kind !== 'forward') return
    const details = { status: 400, request: 'forward', kind: 'forward' }
    throw new InstarError('trainer_refused', 'forward answered with 400', details)
  }
  await line.turns(items)
  let started = await startTrainer(line.log, { server }, model, ranked(16))
  await untilWaits(started, 'turns')
  await started.trainer.stop()
  server.before = () => undefined
  await line.turns(items, 10)
  started = await startTrainer(line.log, { server, name: 't2' }, model, ranked(8))
  await untilWaits(started, 'verdict')
  assert.deepEqual(
    (await line.events('TrainerBound')).map(({ rank }) => rank),
    [16, 8],
  )
  await started.trainer.stop()
})
