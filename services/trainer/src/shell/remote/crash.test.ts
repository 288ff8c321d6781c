/**
 * The trainer is killed, and the server restarted, between every two steps of an update on a training server: requests,
 * appends to the log, both. What comes of the batch is what comes of it undisturbed, and no request is carried out twice.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { InstarError, type Event } from '@instar/events'
import type { EventLog, MemoryLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import { createRuntime } from '@instar/policy/runtime/runtime'
import type { TrainingServer } from '@instar/tinker/port'
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

type When = 'before' | 'after'

/**
 * Calls `strike` at the `at`-th call of the server or append to the log; counts them. Where it throws, every later call does:
 * the process is gone.
 */
class Interrupted {
  calls = 0
  private gone: Error | null = null
  private readonly at: number
  private readonly when: When
  private readonly strike: () => void
  constructor(at: number, when: When, strike: () => void) {
    this.at = at
    this.when = when
    this.strike = strike
  }

  private async through<T>(run: () => Promise<T>): Promise<T> {
    const here = ++this.calls === this.at
    if (this.gone) throw this.gone
    if (here && this.when === 'before') this.struck()
    const result = await run()
    if (here && this.when === 'after') this.struck()
    return result
  }

  private struck(): void {
    try {
      this.strike()
    } catch (error) {
      this.gone = error as Error
      throw error
    }
  }

  /** Of a target whose methods return promises, other than those in `pass`. */
  wrap<T extends object>(target: T, methods: readonly (keyof T)[]): T {
    return new Proxy(target, {
      get: (own, name) => {
        const value: unknown = Reflect.get(own, name, own)
        if (typeof value !== 'function') return value
        const method = value.bind(own) as (...given: unknown[]) => Promise<unknown>
        return methods.includes(name as keyof T)
          ? (...given: unknown[]) => this.through(() => method(...given))
          : method
      },
    })
  }
  server(server: EmbeddedTrainingServer): TrainingServer {
    const calls = ['hello', 'probe', 'openSession', 'resumeSession', 'createModel', 'info', 'unload', 'send'] as const
    return this.wrap<TrainingServer>(server, [...calls, 'archive', 'delete'])
  }
  log(log: MemoryLog): EventLog {
    return this.wrap<EventLog>(log, ['append'])
  }
}

type World = { line: RemoteLine; server: EmbeddedTrainingServer }

/** A line with version 1, which was trained on the server, and the turns of the next batch. */
const prepared = async (): Promise<World> => {
  const line = await openLine()
  const server = new EmbeddedTrainingServer(runtime)
  await line.turns(items)
  const first = await startTrainer(line.log, { server }, model, FOUR)
  await untilWaits(first, 'verdict')
  await first.trainer.stop()
  await line.verdict(true)
  await line.turns(items, 10, 1)
  return { line, server }
}

const sealedRequests = (events: readonly Event[]): number =>
  events.filter(({ type }) => type === 'UpdateRequested').length

/** The second update's adapter, and what must hold of the records and of the server. */
const outcome = async ({ line, server }: World): Promise<string> => {
  const computed = await line.events('UpdateComputed')
  assert.equal(computed.length, 2)
  assert.deepEqual(await line.events('UpdateFailed'), [])
  const last = computed[1]
  const steps = server.ran.filter(({ kind, model: name }) => kind === 'optim_step' && name === last?.remote?.model)
  const earlier = last?.remote?.model === computed[0]?.remote?.model ? 2 : 0
  assert.equal(steps.length, 2 + earlier, 'steps of the model that the adapter comes from')
  const seen = server.ran.map(({ model: name, seq }) => `${name} ${seq}`)
  assert.equal(new Set(seen).size, seen.length, 'a request was carried out twice')
  return last?.adapter ?? ''
}

const undisturbed = await prepared()
const counting = new Interrupted(0, 'before', () => undefined)
const run = await startTrainer(
  counting.log(undisturbed.line.log as MemoryLog),
  { server: counting.server(undisturbed.server), name: 't2' },
  model,
  FOUR,
)
await untilWaits(run, 'verdict')
await run.trainer.stop()
const expected = await outcome(undisturbed)
const STEPS = counting.calls

test('the update has more than 20 steps between which it can be interrupted', () => {
  assert.ok(STEPS > 20, `${STEPS}`)
})

for (const [when, restart] of [
  ['after', false],
  ['before', true],
] as const)
  test(`kill of the trainer ${when} each step${restart ? ', and a restart of the server' : ''}`, async () => {
    for (let at = 1; at <= STEPS; at++) {
      const world = await prepared()
      const before = world.server.ran.length
      const dead = Promise.withResolvers<void>()
      const strike = new Interrupted(at, when, () => {
        dead.resolve()
        throw new InstarError('stopping', 'the trainer was killed')
      })
      const victim = await startTrainer(
        strike.log(world.line.log),
        { server: strike.server(world.server), name: 't2' },
        model,
        FOUR,
      )
      await dead.promise
      await victim.trainer.stop()
      const requested = sealedRequests(await world.line.events('UpdateRequested'))
      const stepped = world.server.ran.slice(before).filter(({ kind }) => kind === 'forward_backward').length
      assert.ok(stepped <= requested - 2, `${stepped} steps were sent, ${requested - 2} are recorded`)
      if (restart) world.server.restart()
      const heir = await startTrainer(world.line.log, { server: world.server, name: 't3' }, model, FOUR)
      await untilWaits(heir, 'verdict')
      await heir.trainer.stop()
      assert.equal(await outcome(world), expected, `killed ${when} step ${at}`)
    }
  })

test('restart of the server before each step, under a trainer that runs on', async () => {
  for (let at = 1; at <= STEPS; at++) {
    const world = await prepared()
    const strike = new Interrupted(at, 'before', () => world.server.restart())
    const trainer = await startTrainer(
      strike.log(world.line.log),
      { server: strike.server(world.server), name: 't2' },
      model,
      FOUR,
    )
    await untilWaits(trainer, 'verdict')
    await trainer.trainer.stop()
    assert.equal(await outcome(world), expected, `restarted before step ${at}`)
  }
})

test('the state of the parent is gone: nothing is trained until it is back, and a rollback ends the wait', async () => {
  const world = await prepared()
  const { line, server } = world
  const saved = new Map(server.saved)
  server.saved.clear()
  server.restart()
  const metrics = createMetrics()
  const waiting = await startTrainer(line.log, { server, name: 't2', metrics }, model, FOUR)
  assert.equal(await untilWaits(waiting, 'trainer_state_lost', 'verdict'), 'trainer_state_lost')
  assert.match(await metrics.text(), /instar_trainer_waits\{for="trainer_state_lost"\} 1/)
  assert.equal((await line.events('UpdateComputed')).length, 1)
  for (const [path, checkpoint] of saved) server.saved.set(path, checkpoint)
  await untilWaits(waiting, 'verdict')
  assert.equal(await outcome(world), expected)
  // Accepted, and then both states are gone.
  await line.verdict(true)
  await untilWaits(waiting, 'turns')
  server.saved.clear()
  server.restart()
  await line.turns(items, 20, 2)
  await untilWaits(waiting, 'trainer_state_lost')
  await line.rollback(0)
  await line.turns(items, 30, 0)
  await untilWaits(waiting, 'verdict')
  const [failure] = await line.events('UpdateFailed')
  assert.match(failure?.reason ?? '', /^trainer_state_lost: /)
  const [last] = (await line.events('TrainerBound')).slice(-1)
  assert.deepEqual([last?.statePath, last?.parent.version], [null, 0])
  await waiting.trainer.stop()
})

test('a trainer that another one has replaced records nothing that counts, and sends nothing more', async () => {
  const world = await prepared()
  const { line, server } = world
  const held = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  let forwards = 0
  const slow = new Proxy(server as TrainingServer, {
    get: (own, name) => {
      const value: unknown = Reflect.get(own, name, own)
      if (typeof value !== 'function') return value
      const method = value.bind(own) as (...given: unknown[]) => unknown
      if (name !== 'send') return method
      return async (request: { kind: string }) => {
        const result = await method(request)
        // The scoring after the first step.
        if (request.kind === 'forward' && ++forwards === 3) {
          reached.resolve()
          await held.promise
        }
        return result
      }
    },
  })
  const zombie = await startTrainer(line.log, { server: slow, name: 'zombie' }, model, FOUR)
  await reached.promise
  const heir = await startTrainer(line.log, { server, name: 'heir' }, model, FOUR)
  await untilWaits(heir, 'verdict')
  const sent = server.ran.length
  held.resolve()
  await untilWaits(zombie, 'verdict', 'standby')
  assert.equal(server.ran.length, sent)
  assert.equal(await outcome(world), expected)
  assert.deepEqual(
    (await line.events('TrainerBound')).map(({ epoch, trainer }) => [epoch, trainer]),
    [
      [1, 't1'],
      [2, 'zombie'],
      [3, 'heir'],
    ],
  )
  await zombie.trainer.stop()
  await heir.trainer.stop()
})
