/** Log-probs of a training server that are not finite numbers: a turn's are left out, a step's spend the batch, all are the server's. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
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

/** Puts NaN in rows of passes, counted from 0 over all models. */
class DivergingServer extends EmbeddedTrainingServer {
  bad: (pass: number, row: number) => boolean = () => false
  private passes = 0
  override async send<K extends RequestKind>(request: Prepared<K>): Promise<Answer<K>> {
    const answer = await super.send(request)
    const { result } = answer
    if (request.kind !== 'forward' || !('logprobs' in result)) return answer
    const pass = this.passes++
    const logprobs = result.logprobs.map((row, at) => (this.bad(pass, at) ? row.map(() => Number.NaN) : row))
    return { ...answer, result: { ...result, logprobs } }
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

test('a step after which no log-prob is finite spends its batch, and the trainer goes on', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  server.bad = (pass) => pass >= 2
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'turns')
  const failed = await line.events('UpdateFailed')
  assert.equal(failed.length, 1)
  assert.match(failed[0]!.reason, /^update_not_finite/)
  await started.trainer.stop()
})

test('a server that has no finite log-prob at all spends no batch', async () => {
  const line = await openLine()
  await line.turns(items)
  const server = new DivergingServer(runtime)
  server.bad = () => true
  const started = await startTrainer(line.log, { server }, model, FOUR)
  assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await started.trainer.stop()
})
