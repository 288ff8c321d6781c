/** Values of a training server that are not finite numbers: a turn's are left out, a step's spend the batch, all are the server's. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { InstarError } from '@instar/events'
import { createRuntime } from '@instar/policy/runtime/runtime'
import type { Answer, Prepared, RequestKind } from '@instar/tinker'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { exampleModel, openLine, startTrainer, untilWaits } from '../../../../../test/kit/remote-line.ts'

const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 })
const items = (await exampleItems(runtime)).slice(0, 4)
const model = exampleModel([3, 1, 4, 1, 5, 9, 2, 6])
const FOUR = { batchSize: 4, batchMax: 4 }
after(() => runtime.close())

/** Puts a value in rows of passes, counted from 0 over all models. */
class DivergingServer extends EmbeddedTrainingServer {
  bad: (pass: number, row: number, model: string) => boolean = () => false
  value = Number.NaN
  gradNorm: number | null = null
  private passes = 0
  override async send<K extends RequestKind>(request: Prepared<K>): Promise<Answer<K>> {
    const answer = await super.send(request)
    const { result } = answer
    if (request.kind === 'optim_step' && this.gradNorm !== null)
      return { ...answer, result: { ...result, gradNorm: this.gradNorm } }
    if (request.kind !== 'forward' || !('logprobs' in result)) return answer
    const pass = this.passes++
    const change = (row: Float32Array, at: number) =>
      this.bad(pass, at, request.model) ? row.map(() => this.value) : row
    return { ...answer, result: { ...result, logprobs: result.logprobs.map(change) } }
  }
}

test('a turn without finite log-probs is left out of its batch', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  server.bad = (pass, row) => pass === 0 && row === 1
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'verdict')
  const [scored] = await line.events('TrainerScored')
  assert.deepEqual(
    scored!.dropped.map(({ reason }) => reason),
    ['update_not_finite'],
  )
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await started.trainer.stop()
})

for (const value of [Number.NaN, Infinity, -Infinity])
  test(`a step after which log-probs are ${value} spends its batch, and the trainer goes on`, async () => {
    const line = await openLine()
    await line.turns(items)
    const server = new DivergingServer(runtime)
    Object.assign(server, { value, bad: (pass: number, row: number) => pass >= 2 && row === 1 })
    const started = await startTrainer(line.log, { server }, model, FOUR)
    await untilWaits(started, 'turns')
    const failed = await line.events('UpdateFailed')
    assert.equal(failed.length, 1)
    assert.match(failed[0]!.reason, /^update_not_finite/)
    await started.trainer.stop()
  })

test('a step whose gradient has a norm that is not finite spends its batch; the next one has another model', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  server.gradNorm = Number.NaN
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'turns')
  const failed = await line.events('UpdateFailed')
  assert.deepEqual([failed.length, failed[0]?.reason.split(':')[0]], [1, 'update_not_finite'])
  server.gradNorm = null
  await line.turns(items, 10)
  await untilWaits(started, 'verdict')
  const [first, second] = await line.events('TrainerBound')
  assert.notEqual(first?.model, second?.model)
  await started.trainer.stop()
})

test('an adapter with a value that is not finite spends its batch', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  const archive = server.archive.bind(server)
  server.archive = async (path: string, base: string) => {
    const fetched = await archive(path, base)
    new DataView(fetched.weights.buffer, fetched.weights.byteOffset).setFloat32(
      fetched.weights.length - 4,
      Infinity,
      true,
    )
    return fetched
  }
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'turns', 'verdict')
  const failed = await line.events('UpdateFailed')
  assert.match(failed[0]?.reason ?? '', /^update_not_finite: the adapter of batch 1 has values in base_model/)
  await started.trainer.stop()
})

test('a server that has no finite log-prob at all, for its probe neither, spends no batch', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  server.bad = () => true
  const started = await startTrainer(line.log, { server }, model, FOUR)
  server.probe = async () => {
    throw new InstarError('trainer_mismatch', 'The training server’s log-probs of the probe are not finite numbers')
  }
  assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await started.trainer.stop()
})

test('a batch of which the base has no finite log-prob, on two models of a sound server, is spent, and the next one is not', async () => {
  const line = await openLine()
  for (let at = 0; at < 3; at++) await line.turns(items, 10 * at)
  const server = new DivergingServer(runtime)
  server.bad = (pass) => pass < 8
  const started = await startTrainer(line.log, { server }, model, FOUR)
  assert.equal(await untilWaits(started, 'trainer_denied', 'verdict', 'turns'), 'trainer_denied')
  const failed = await line.events('UpdateFailed')
  assert.deepEqual(
    failed.map(({ number, reason }) => [number, reason]),
    [
      [
        1,
        'update_not_finite: The training server has no finite log-probabilities of an answer of batch 1 under the base model',
      ],
    ],
  )
  await untilWaits(started, 'verdict')
  assert.equal((await line.events('UpdateComputed'))[0]?.number, 2)
  assert.equal((await line.events('UpdateFailed')).length, 1)
  await started.trainer.stop()
})

test('a version that has no finite log-prob on the server is waited for as a lost state; after a rollback its batch fails alone', async () => {
  const line = await openLine()
  const server = new DivergingServer(runtime)
  await line.turns(items)
  let started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  server.restart()
  server.bad = (_pass, _row, name) => server.ran.some((one) => one.kind === 'load_weights' && one.model === name)
  await line.turns(items, 10, 1)
  started = await startTrainer(line.log, { server, name: 't2' }, model, FOUR)
  assert.equal(await untilWaits(started, 'trainer_state_lost', 'trainer_denied', 'turns'), 'trainer_state_lost')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await line.rollback(0)
  await line.turns(items, 20, 0)
  await untilWaits(started, 'verdict')
  const failed = await line.events('UpdateFailed')
  assert.deepEqual([failed.length, failed[0]?.number], [1, 2])
  assert.match(failed[0]!.reason, /^trainer_state_lost: .*no finite log-probabilities .* under version 1/)
  assert.equal((await line.events('UpdateComputed')).at(-1)?.number, 3)
  await started.trainer.stop()
})

const ONE = { batchSize: 1, batchMax: 1 }
const reasonsOf = (failed: readonly { number: number; reason: string }[]): [number, string][] =>
  failed.map(({ number, reason }) => [number, reason.split(':')[0]!])

test('batches of one turn that has no finite log-prob are spent one after the other, and the trainer goes on', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  // Two models for each batch, with a pass of its own and one of the base each.
  server.bad = (pass) => pass < 8
  const started = await startTrainer(line.log, { server }, model, ONE)
  assert.equal(await untilWaits(started, 'trainer_denied', 'verdict', 'turns'), 'verdict')
  assert.deepEqual(reasonsOf(await line.events('UpdateFailed')), [
    [1, 'update_not_finite'],
    [2, 'update_not_finite'],
  ])
  assert.equal((await line.events('UpdateComputed'))[0]?.number, 3)
  await started.trainer.stop()
})

test('of batches of one turn at most 16 in a row are spent; then the server is waited for', async () => {
  const line = await openLine()
  for (let at = 0; at < 5; at++) await line.turns(items, 10 * at)
  const server = new DivergingServer(runtime)
  server.bad = () => true
  const started = await startTrainer(line.log, { server }, model, ONE)
  assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
  assert.equal((await line.events('UpdateFailed')).length, 16)
  await started.trainer.stop()
})

test('a batch of one turn whose hinted prompt alone has none is spent at once', async () => {
  const line = await openLine()
  const hinted = items.find(({ hintPrompt }) => hintPrompt)!
  await line.turns([hinted])
  const server = new DivergingServer(runtime)
  // Rows of the reference: the prompt, then the hinted one.
  server.bad = (_pass, row) => row === 1
  const started = await startTrainer(line.log, { server }, model, ONE)
  assert.equal(await untilWaits(started, 'trainer_denied', 'verdict', 'turns'), 'turns')
  assert.deepEqual(reasonsOf(await line.events('UpdateFailed')), [[1, 'update_not_finite']])
  assert.equal((await line.events('TrainerBound')).length, 1)
  await started.trainer.stop()
})

test('a turn of which the version that it continues alone has none is spent, where it is the only one of its batch', async () => {
  const line = await openLine()
  const server = new DivergingServer(runtime)
  await line.turns(items)
  let started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await line.verdict(true)
  server.restart()
  server.bad = (_pass, _row, name) => server.ran.some((one) => one.kind === 'load_weights' && one.model === name)
  await line.turns(items.slice(0, 1), 10, 1)
  started = await startTrainer(line.log, { server, name: 't2' }, model, ONE)
  assert.equal(await untilWaits(started, 'trainer_state_lost', 'trainer_denied', 'turns'), 'turns')
  assert.deepEqual(reasonsOf(await line.events('UpdateFailed')), [[2, 'update_not_finite']])
  await started.trainer.stop()
})
