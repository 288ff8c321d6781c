/** Another trainer takes up the line, or settles the batch, while a request of this one runs: this one records nothing. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, test } from 'node:test'
import {
  foldUpdates,
  initialUpdates,
  InstarError,
  updateLine,
  weightLine,
  type Logged,
  type UpdatesEvent,
} from '@instar/events'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import {
  exampleModel,
  openLine,
  startTrainer,
  untilWaits,
  type RemoteLine,
  type Started,
} from '../../../../../test/kit/remote-line.ts'

const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 })
const items = (await exampleItems(runtime)).slice(0, 4)
const model = exampleModel([3, 1, 4, 1, 5, 9, 2, 6])
const FOUR = { batchSize: 4, batchMax: 4 }
after(() => runtime.close())

/** The next request of kind `holds` runs until `release` is called, then fails if it was given an error. */
class HeldServer extends EmbeddedTrainingServer {
  readonly changes = new EventEmitter()
  holds: string | null = null
  release: (error?: Error) => void = () => undefined
  override before = (kind: string): Promise<void> | void => {
    if (kind !== this.holds) return
    this.holds = null
    return new Promise((resolve, reject) => {
      this.release = (error) => (error ? reject(error) : resolve())
      this.changes.emit('held')
    })
  }
}

const fold = async (line: RemoteLine) => {
  const state = initialUpdates()
  for (const logged of await line.records())
    if (logged.topic === 'updates') foldUpdates(state, logged as Logged<UpdatesEvent>)
  return updateLine(state, 'policy')
}

/** Resolves when the trainer has read what is on the line. */
const untilRead = async (line: RemoteLine, { trainer }: Started): Promise<void> => {
  const { chain } = await fold(line)
  while (updateLine(trainer.state.updates, 'policy').chain.tip !== chain.tip)
    await new Promise((resolve) => setImmediate(resolve))
}

/** A line with version 1 whose trainer holds a request of `kind` of batch 2. */
const held = async (kind: string, settings: Record<string, unknown> = {}) => {
  const line = await openLine()
  const server = new HeldServer(runtime)
  await line.turns(items)
  const first = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(first, 'verdict')
  await first.trainer.stop()
  await line.verdict(true)
  server.restart()
  server.holds = kind
  await line.turns(items, 10, 1)
  const holding = once(server.changes, 'held')
  const started = await startTrainer(line.log, { server, name: 't2' }, model, { ...FOUR, ...settings })
  await holding
  return { line, server, started }
}

for (const [kind, error] of [
  ['load_weights', new InstarError('trainer_failed', 'load_weights failed: locked', { kind: 'load_weights' })],
  ['forward', new InstarError('trainer_refused', 'forward answered with 400', { status: 400, request: 'forward' })],
  ['save_weights', undefined],
] as const)
  test(`a batch that another trainer computes while ${kind} ${error ? 'fails' : 'runs'} keeps that outcome`, async () => {
    const { line, server, started } = await held(kind)
    const { chain, last, batches } = await fold(line)
    const { remote: _, ...computed } = batches[0]!.update!.event
    await line.append({ ...computed, prev: chain.tip, batch: last, number: 2 })
    await line.verdict(true)
    await untilRead(line, started)
    server.release(error)
    await untilWaits(started, 'turns')
    assert.deepEqual(await line.events('UpdateFailed'), [])
    assert.equal((await line.events('UpdateComputed')).length, 2)
    const { batches: after, failed } = await fold(line)
    assert.deepEqual([after.map(({ status }) => status), failed], [['computed', 'computed'], 0])
    assert.equal(weightLine(started.trainer.state.weights, 'policy').head, 2)
    await started.trainer.stop()
  })

test('a trainer that another one has replaced deletes no checkpoint of the newest versions', async () => {
  const { line, server, started } = await held('save_weights', { keepStates: 2 })
  const { chain, last, batches } = await fold(line)
  const { remote, ...computed } = batches[0]!.update!.event
  await line.append({ ...computed, prev: chain.tip, batch: last, number: 2 })
  await line.verdict(true)
  await untilRead(line, started)
  while (weightLine(started.trainer.state.weights, 'policy').head !== 2)
    await new Promise((resolve) => setImmediate(resolve))
  server.release()
  await untilWaits(started, 'turns')
  assert.deepEqual([server.saved.has(remote!.statePath), server.saved.has(remote!.adapterPath)], [true, true])
  await started.trainer.stop()
})

for (const error of [undefined, new InstarError('trainer_failed', 'out of memory')])
  test(`a line that another trainer takes up while a pass ${error ? 'fails' : 'runs'} gets no record of that pass`, async () => {
    const { line, server, started } = await held('forward')
    const { chain, binding } = await fold(line)
    const theirs = { ...binding!.event, prev: chain.tip, epoch: binding!.event.epoch + 1, trainer: 'other' }
    await line.append(theirs)
    await untilRead(line, started)
    const before = (await line.events('TrainerScored')).length
    server.release(error)
    await untilWaits(started, 'verdict')
    const updates = (await line.records()).flatMap(({ topic, event }) => (topic === 'updates' ? [event.type] : []))
    const last = updates.slice(updates.indexOf('UpdateComputed') + 1)
    // Bound again before anything of the pass is recorded, on the model of the other trainer.
    assert.deepEqual(last.slice(0, 5), ['BatchSealed', 'TrainerBound', 'TrainerBound', 'TrainerBound', 'TrainerScored'])
    const bound = await line.events('TrainerBound')
    assert.equal(bound.at(-1)?.model, theirs.model)
    assert.equal((await line.events('TrainerScored')).length - before, 3)
    await started.trainer.stop()
  })

/** Its passes take many turns of the event loop, and other requests one. */
class SlowServer extends EmbeddedTrainingServer {
  override before = async (kind: string): Promise<void> => {
    const turns = ['forward', 'forward_backward', 'optim_step', 'save_weights'].includes(kind) ? 500 : 1
    for (let i = 0; i < turns; i += 1) await new Promise((resolve) => setImmediate(resolve))
  }
}

test('of two trainers that both hold the line one computes the batch, and neither takes it without end', async () => {
  const line = await openLine()
  const server = new SlowServer(runtime)
  await line.turns(items)
  const both = await Promise.all(['t1', 't2'].map((name) => startTrainer(line.log, { server, name }, model, FOUR)))
  await Promise.all(both.map((started) => untilWaits(started, 'verdict')))
  assert.ok((await line.events('TrainerBound')).length <= 6, `${(await line.events('TrainerBound')).length} bindings`)
  assert.equal((await line.events('UpdateComputed')).length, 1)
  await Promise.all(both.map(({ trainer }) => trainer.stop()))
})
