/** A training server that refuses the trainer, or has no room: no turn is used up, and no model is left there. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, test } from 'node:test'
import { InstarError } from '@instar/events'
import { createMetrics } from '@instar/process'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import {
  exampleModel,
  openLine,
  startTrainer,
  untilWaits,
  type RemoteLine,
} from '../../../../../test/kit/remote-line.ts'

const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 })
const items = (await exampleItems(runtime)).slice(0, 4)
const model = exampleModel([3, 1, 4, 1, 5, 9, 2, 6])
const FOUR = { batchSize: 4, batchMax: 4 }
after(() => runtime.close())

type Changing = { readonly changes: EventEmitter }
const until = async ({ changes }: Changing, met: () => boolean): Promise<void> => {
  while (!met()) await once(changes, 'change')
}

/** Refuses a request with a status while `status` is not null. */
class RefusingServer extends EmbeddedTrainingServer {
  readonly changes = new EventEmitter()
  status: number | null = null
  refuses = 'create_session'
  /** Refusals that were answered. */
  refused = 0
  override async probe() {
    this.refuse('create_session')
    return super.probe()
  }
  refuse(kind: string): void {
    if (this.status === null || kind !== this.refuses) return
    this.refused++
    this.changes.emit('change')
    const details = { status: this.status, request: kind }
    throw new InstarError('trainer_refused', `http://x answered ${kind} with ${this.status}`, details)
  }
  override before = (kind: string): void => this.refuse(kind)
}

for (const [status, request] of [
  [402, 'create_session'],
  [400, 'create_session'],
  [422, 'create_model'],
  [401, 'forward'],
  [403, 'save_weights'],
  [400, 'save_weights'],
] as const)
  test(`${status} for ${request} is waited for: no batch is spent, and the next answer lets it go on`, async () => {
    const line = await openLine()
    const server = new RefusingServer(runtime)
    Object.assign(server, { status, refuses: request })
    const metrics = createMetrics()
    for (let at = 0; at < 5; at++) await line.turns(items, 10 * at)
    const started = await startTrainer(line.log, { server, metrics }, model, FOUR)
    await until(server, () => server.refused >= 2)
    assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
    assert.match(await metrics.text(), /instar_trainer_waits\{for="trainer_denied"\} 1/)
    assert.equal((await line.events('BatchSealed')).length, 1)
    assert.deepEqual(await line.events('UpdateFailed'), [])
    server.status = null
    await untilWaits(started, 'verdict')
    assert.equal((await line.events('UpdateComputed'))[0]?.number, 1)
    assert.deepEqual(await line.events('UpdateFailed'), [])
    await started.trainer.stop()
  })

for (const [kind, restarts] of [
  ['forward', false],
  ['forward', true],
  ['forward_backward', false],
  ['optim_step', false],
  ['save_weights_for_sampler', false],
  ['archive', false],
] as const)
  test(`a result of ${kind} that does not fit is waited for: no batch is spent, and a mended server ${restarts ? 'that has restarted ' : ''}lets it go on`, async () => {
    const line = await openLine()
    const server = new RefusingServer(runtime)
    const changed = new EventEmitter()
    let [wrong, answered] = [true, 0]
    server.before = (asked) => {
      if (asked !== kind || !wrong) return
      answered++
      changed.emit('change')
      throw new InstarError('trainer_mismatch', 'The training server’s result has log-probs of 3 rows; 4 were sent')
    }
    for (let at = 0; at < 5; at++) await line.turns(items, 10 * at)
    const waits: string[] = []
    const onWait = ({ number, reason }: { number: number; reason: string }) => void waits.push(`${number} ${reason}`)
    const started = await startTrainer(line.log, { server, onWait }, model, FOUR)
    await until({ changes: changed }, () => answered >= 3)
    assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
    assert.equal((await line.events('BatchSealed')).length, 1)
    assert.deepEqual(waits, ['1 trainer_denied: The training server’s result has log-probs of 3 rows; 4 were sent'])
    wrong = false
    if (restarts) server.restart()
    await untilWaits(started, 'verdict')
    assert.equal((await line.events('UpdateComputed'))[0]?.number, 1)
    assert.deepEqual(await line.events('UpdateFailed'), [])
    await started.trainer.stop()
  })

test('a refusal of the batch’s own rows fails that batch, and the next one is taken', async () => {
  const line = await openLine()
  const server = new RefusingServer(runtime)
  Object.assign(server, { status: 400, refuses: 'forward' })
  await line.turns(items)
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'turns')
  const [failure] = await line.events('UpdateFailed')
  assert.match(failure?.reason ?? '', /^trainer_refused: .* answered forward with 400/)
  server.status = null
  await line.turns(items, 10)
  await untilWaits(started, 'verdict')
  assert.equal((await line.events('UpdateComputed'))[0]?.number, 2)
  await started.trainer.stop()
})

/** Has room for `slots` models; those of a session that has ended are unloaded. */
class SlotServer extends EmbeddedTrainingServer {
  readonly changes = new EventEmitter()
  slots = Infinity
  created = 0
  most = 0
  /** The next unloads fail. */
  stuck = 0
  readonly ended: string[] = []
  override async createModel(...given: Parameters<EmbeddedTrainingServer['createModel']>) {
    if (this.models.size >= this.slots) throw new InstarError('trainer_full', 'maximum number of LoRA adapters')
    const made = await super.createModel(...given)
    this.created++
    this.most = Math.max(this.most, this.models.size)
    this.changes.emit('change')
    return made
  }
  override async unload(name: string): Promise<void> {
    if (this.stuck-- > 0) throw new InstarError('trainer_failed', `${name} was not unloaded`)
    return super.unload(name)
  }
  override endSession(session: string): void {
    super.endSession(session)
    this.ended.push(session)
    for (const [name, own] of this.models) if (own.session === session) this.models.delete(name)
  }
}

/** A line with version 1, which was trained on the server, and the turns of the next batch. */
const prepared = async (): Promise<{ line: RemoteLine; server: SlotServer }> => {
  const line = await openLine()
  const server = new SlotServer(runtime)
  await line.turns(items)
  const first = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(first, 'verdict')
  await first.trainer.stop()
  await line.verdict(true)
  await line.turns(items, 10, 1)
  server.created = 0
  return { line, server }
}

for (const stuck of [0, 1])
  test(`the parent’s checkpoint is lost on a server of two models: none is left there${stuck ? ', though an unload fails' : ''}`, async () => {
    const { line, server } = await prepared()
    const saved = new Map(server.saved)
    server.restart()
    server.saved.clear()
    Object.assign(server, { slots: 2, most: 0 })
    server.before = (kind) => {
      if (kind === 'load_weights' && server.created === 1) server.stuck = stuck
    }
    const started = await startTrainer(line.log, { server, name: 't2' }, model, FOUR)
    await until(server, () => server.created >= 3)
    await untilWaits(started, 'trainer_state_lost', 'trainer_full')
    assert.equal(started.trainer.waits(), 'trainer_state_lost')
    assert.equal(server.models.size, 0)
    assert.equal(server.most, 1)
    for (const [path, checkpoint] of saved) server.saved.set(path, checkpoint)
    await untilWaits(started, 'verdict')
    assert.deepEqual(await line.events('UpdateFailed'), [])
    assert.equal(server.models.size, 2)
    await started.trainer.stop()
  })

test('another client has one of two places: the trainer leaves it the other until both are free', async () => {
  const { line, server } = await prepared()
  const [one] = server.models.values()
  server.restart()
  server.models.set('other', { ...one!, session: 'elsewhere' })
  Object.assign(server, { slots: 2 })
  const started = await startTrainer(line.log, { server, name: 't2' }, model, FOUR)
  await until(server, () => server.created >= 3)
  await untilWaits(started, 'trainer_full')
  assert.deepEqual([...server.models.keys()], ['other'])
  server.models.delete('other')
  await untilWaits(started, 'verdict')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await started.trainer.stop()
})

test('the session of models that are lost ends, also one of an earlier process, and its models with it', async () => {
  const { line, server } = await prepared()
  const [first] = await line.events('TrainerBound')
  Object.assign(server, { slots: 2 })
  let failing = 1
  server.before = (kind) => {
    if (kind !== 'forward_backward' || failing-- <= 0) return
    server.stuck = 2
    throw new InstarError('trainer_failed', 'out of memory')
  }
  const started = await startTrainer(line.log, { server, name: 't2' }, model, FOUR)
  await untilWaits(started, 'verdict')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  assert.ok(server.ended.includes(first?.session ?? ''))
  assert.equal(server.models.size, 2)
  const [last] = (await line.events('TrainerBound')).slice(-1)
  assert.notEqual(last?.session, first?.session)
  await started.trainer.stop()
})
