/** Errors while the server is connected to, the line is taken up, or the adapter is fetched: they spend no further batch. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, test } from 'node:test'
import { InstarError } from '@instar/events'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { config, exampleItems, exampleWeights } from '../../../../../test/kit/golden/policy/example.ts'
import { EmbeddedTrainingServer } from '../../../../../test/kit/embedded-training-server.ts'
import { exampleModel, openLine, startTrainer, untilWaits } from '../../../../../test/kit/remote-line.ts'
import { trainerConfig } from '../../config.ts'
import { bind } from './bind.ts'

const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 })
const items = (await exampleItems(runtime)).slice(0, 4)
const model = exampleModel([3, 1, 4, 1, 5, 9, 2, 6])
const FOUR = { batchSize: 4, batchMax: 4 }
after(() => runtime.close())

/** Fails a call while `error` is not null. */
class FailingServer extends EmbeddedTrainingServer {
  readonly changes = new EventEmitter()
  fails: 'probe' | 'create_model' | 'archive' = 'probe'
  error: (() => Error) | null = null
  failed = 0
  fail(call: string): void {
    if (call !== this.fails || this.error === null) return
    this.failed++
    this.changes.emit('failed')
    throw this.error()
  }
  override async probe() {
    this.fail('probe')
    return super.probe()
  }
  override before = (kind: string): void => this.fail(kind)
  async untilFailed(times: number): Promise<void> {
    while (this.failed < times) await once(this.changes, 'failed')
  }
}

for (const [fails, what, error] of [
  ['probe', 'an archive that cannot be read', () => new InstarError('bad_checkpoint', 'a redirect to s3://')],
  ['probe', 'a checkpoint of the probe that is gone', () => new InstarError('trainer_state_lost', 'no adapter probe')],
  ['probe', 'an error without a code', () => new Error('http://x: ECONNRESET')],
  ['create_model', 'an error of the trainer itself', () => new InstarError('internal', 'unexpected')],
] as const)
  test(`${what} while the line is taken up is waited for, with a report`, async () => {
    const line = await openLine()
    const server = new FailingServer(runtime)
    Object.assign(server, { fails, error })
    for (let at = 0; at < 5; at++) await line.turns(items, 10 * at)
    const waits: string[] = []
    const onWait = ({ reason }: { reason: string }) => void waits.push(reason)
    const started = await startTrainer(line.log, { server, onWait }, model, FOUR)
    await server.untilFailed(4)
    assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
    assert.equal(waits.length, 1)
    assert.match(waits[0] ?? '', new RegExp(`^trainer_denied: .*${error().message}`))
    assert.deepEqual(await line.events('UpdateFailed'), [])
    server.error = null
    await untilWaits(started, 'verdict')
    assert.equal((await line.events('UpdateComputed'))[0]?.number, 1)
    assert.deepEqual(await line.events('UpdateFailed'), [])
    await started.trainer.stop()
  })

test('an adapter that is gone after its save: another model computes the batch again', async () => {
  const line = await openLine()
  const server = new FailingServer(runtime)
  const gone = (): Error => new InstarError('trainer_state_lost', 'http://x has no adapter b1')
  Object.assign(server, { fails: 'archive', error: gone })
  server.changes.once('failed', () => queueMicrotask(() => (server.error = null)))
  await line.turns(items)
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'verdict')
  assert.equal(server.failed, 1)
  const models = (await line.events('TrainerBound')).map((bound) => bound.model)
  assert.equal(new Set(models).size, 2)
  assert.equal((await line.events('UpdateComputed'))[0]?.remote?.model, models[1])
  assert.deepEqual(await line.events('UpdateFailed'), [])
  await started.trainer.stop()
})

test('a batch whose adapter is gone on five models in a row has failed, and the next one is taken', async () => {
  const line = await openLine()
  const server = new FailingServer(runtime)
  const gone = (): Error => new InstarError('trainer_state_lost', 'http://x has no adapter b1')
  Object.assign(server, { fails: 'archive', error: gone })
  await line.turns(items)
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(started, 'turns')
  const [failure, ...others] = await line.events('UpdateFailed')
  assert.match(failure?.reason ?? '', /^trainer_state_lost: .* on 5 models in a row/)
  assert.deepEqual([server.failed, others], [5, []])
  server.error = null
  await line.turns(items, 10)
  await untilWaits(started, 'verdict')
  assert.equal((await line.events('UpdateComputed'))[0]?.number, 2)
  await started.trainer.stop()
})

test('adapters that cannot be read are waited for after one new model, and spend no batch', async () => {
  const line = await openLine()
  const server = new FailingServer(runtime)
  const error = (): Error => new InstarError('bad_checkpoint', 'adapter: use_dora is not supported')
  Object.assign(server, { fails: 'archive', error })
  for (let at = 0; at < 5; at++) await line.turns(items, 10 * at)
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await server.untilFailed(4)
  assert.equal(await untilWaits(started, 'trainer_denied', 'turns'), 'trainer_denied')
  assert.deepEqual(await line.events('UpdateFailed'), [])
  server.error = null
  await untilWaits(started, 'verdict')
  assert.equal((await line.events('TrainerBound')).length, 2)
  await started.trainer.stop()
})

test('a model that is not unloaded within its limit goes with its session', async () => {
  const line = await openLine()
  const server = new FailingServer(runtime)
  Object.assign(server, { fails: 'create_model', error: () => new InstarError('trainer_full', 'no room') })
  await line.turns(items)
  const started = await startTrainer(line.log, { server }, model, FOUR)
  await server.untilFailed(1)
  await started.trainer.stop()
  const [sealed] = await line.events('BatchSealed')
  const ended: string[] = []
  let creations = 0
  let unloads = 0
  server.before = (kind) => {
    if (kind === 'create_model' && ++creations === 2) throw new InstarError('trainer_full', 'no room')
  }
  server.unload = async () => {
    unloads++
    throw new InstarError('trainer_lost', 'not unloaded after a minute')
  }
  server.endSession = (session) => void ended.push(session)
  const { signal } = new AbortController()
  const ports = {
    log: line.log,
    reader: null as never,
    model,
    server,
    now: () => 1,
    signal,
    onProgress: () => undefined,
  }
  const connection = { trainer: 't', capabilities: null, session: null, baseModel: null }
  await assert.rejects(bind(ports, connection, started.trainer.state, sealed!, false), { code: 'trainer_full' })
  assert.deepEqual([unloads, ended.length], [1, 1])
})

test('the settings take no address that is none', () => {
  const parse = (server: string) => trainerConfig.safeParse({ server })
  assert.equal(parse('tinker+http://gpu:8080').success, true)
  assert.match(parse('tinker+http://gpu:80800').error?.issues[0]?.message ?? '', /^must be embedded, or tinker\+/)
  assert.equal(parse('tinker+http://[::1').success, false)
})
