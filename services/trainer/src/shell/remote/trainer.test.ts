/** A trainer on a training server: the records of an update, and its arithmetic against the embedded trainer's. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { getBlob } from '@instar/log'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import { exampleModel, openLine, startTrainer, untilWaits } from '../../../../../test/kit/remote-line.ts'

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
