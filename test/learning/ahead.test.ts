/** A trainer that computes the next batch while the gate measures its parent: the same records, and nothing of what is discarded. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRecord, encodeEvent, InstarError, TOPICS, written, type Event } from '@instar/events'
import { openMemoryLog, type MemoryLog } from '@instar/log'
import type { EvaluateRequest, Evaluation, LearningEngine } from '@instar/engine/port'
import { openModel, startLearning } from '@instar/policy'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createTrainer, trainerConfig, verify } from '@instar/trainer'
import { captured } from '../kit/scored-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

const model = SCRIPTED_MODEL
let clock = 1_000
const now = (): number => (clock += 1)

/** A gate whose measurements wait until they are told to end. */
class HeldGate extends ScriptedLearner {
  readonly waiting: (() => void)[] = []
  readonly #asked: (() => void)[] = []
  held = true

  override async evaluate(request: EvaluateRequest): Promise<Evaluation> {
    if (this.held && request.adapter !== null)
      await new Promise<void>((resolve) => {
        this.waiting.push(resolve)
        for (const told of this.#asked.splice(0)) told()
      })
    return super.evaluate(request)
  }
  /** Resolves when a candidate is being measured. */
  async asked(): Promise<void> {
    if (this.waiting.length === 0) await new Promise<void>((resolve) => this.#asked.push(resolve))
  }
  release(): void {
    for (const go of this.waiting.splice(0)) go()
  }
}

/** Counts its steps, and tells of each. */
class CountingLearner extends ScriptedLearner {
  readonly #told: { count: number; resolve: () => void }[] = []
  override async step(...args: Parameters<ScriptedLearner['step']>): ReturnType<ScriptedLearner['step']> {
    const result = await super.step(...args)
    for (const { resolve } of this.#told.filter(({ count }) => this.steps >= count)) resolve()
    return result
  }
  async stepped(count: number): Promise<void> {
    if (this.steps < count) await new Promise<void>((resolve) => this.#told.push({ count, resolve }))
  }
}

const turn = (n: number, reward: number): Event[] => {
  const session = `s${n}`
  const made = captured({ session, messages: [{ role: 'user', content: `q${n}` }], answer: `a${n}`, at: now() })
  return [
    made,
    {
      type: 'TurnScored',
      turn: made.turn,
      session,
      policy: 'policy',
      version: 0,
      subject: session,
      verdicts: [],
      cause: 'c',
      rank: null,
      at: now(),
      reward,
      judge: 'j',
      hint: n % 2 === 0 ? written('Be brief.') : null,
      hintJudge: null,
    },
  ]
}
const append = async (log: MemoryLog, events: readonly Event[]): Promise<void> => {
  for (const event of events) await log.append([encodeEvent(event)])
}
const four = (): Event[] => [...turn(1, 1), ...turn(2, -1), ...turn(3, 1), ...turn(4, -1)]

type Records<T extends Event['type']> = Extract<Event, { type: T }>[]
const records = async <T extends Event['type']>(log: MemoryLog, type: T): Promise<Records<T>> => {
  const found: Event[] = []
  for (const topic of TOPICS)
    for await (const batch of log.read(topic)) for (const record of batch) found.push(decodeRecord(record).event)
  return found.filter((event) => event.type === type) as Records<T>
}

const start = async (ahead: boolean, { gate = new HeldGate(), learner = new CountingLearner() } = {}) => {
  const log = openMemoryLog()
  const fatal: Error[] = []
  const verdicts: ((count: number) => void)[] = []
  let count = 0
  const ports = { log, model, now, onFatal: (error: Error) => void fatal.push(error) }
  const trainer = createTrainer(
    { ...ports, learner, ahead: true },
    trainerConfig.parse({ batchSize: 2, batchMax: 2, ahead, step: { klParentMax: 0.02 } }),
  )
  const publisher = createPublisher(
    {
      ...ports,
      evaluator: gate,
      probes: NO_PROBES,
      onProgress: () => {
        count += 1
        for (const told of verdicts) told(count)
      },
    },
    publisherConfig.parse({}),
  )
  await Promise.all([trainer.start(), publisher.start()])
  return {
    log,
    fatal,
    trainer,
    gate,
    learner,
    verdict: (wanted: number): Promise<void> =>
      new Promise((resolve) => {
        if (count >= wanted) return resolve()
        verdicts.push((reached) => {
          if (reached >= wanted) resolve()
        })
      }),
    async stop() {
      gate.held = false
      gate.release()
      await Promise.all([trainer.stop(), publisher.stop()])
    },
  }
}

test('the next batch is computed during the measurement, and its records are those of a trainer that waits', async () => {
  const adapters: string[][] = []
  for (const ahead of [true, false]) {
    clock = 1_000
    const rig = await start(ahead)
    await append(rig.log, four())
    await rig.gate.asked()
    if (ahead) {
      await rig.learner.stepped(2)
      assert.equal(rig.trainer.waits(), 'verdict')
      // Nothing of it is on the log.
      assert.equal((await records(rig.log, 'BatchSealed')).length, 1)
    } else assert.equal(rig.learner.steps, 1)
    rig.gate.held = false
    rig.gate.release()
    await rig.verdict(2)
    assert.equal(rig.learner.steps, 2)
    const updates = await records(rig.log, 'UpdateComputed')
    adapters.push(updates.map(({ adapter }) => adapter))
    const [, second] = await records(rig.log, 'BatchSealed')
    assert.deepEqual([second?.parent.version, second?.parent.adapter], [1, updates[0]?.adapter])
    await rig.stop()
    const { ok, batches } = await verify({ log: rig.log, learner: new ScriptedLearner(), model }, 'policy', null)
    assert.deepEqual([ok, batches.map(({ mode }) => mode)], [true, ['recompute', 'recompute']])
    assert.deepEqual(rig.fatal, [])
  }
  assert.deepEqual(adapters[0], adapters[1])
})

test('what was computed on a rejected candidate is discarded: its turns are trained on the head', async () => {
  const rig = await start(true)
  await append(rig.log, four())
  await rig.gate.asked()
  await rig.learner.stepped(2)
  rig.gate.kl = 1
  rig.gate.release()
  rig.gate.held = false
  await rig.verdict(1)
  rig.gate.kl = 0.001
  await rig.verdict(2)
  assert.equal(rig.learner.steps, 3)
  const sealed = await records(rig.log, 'BatchSealed')
  assert.deepEqual(
    sealed.map(({ parent }) => parent.version),
    [0, 0],
  )
  assert.equal((await records(rig.log, 'VersionRejected')).length, 1)
  assert.equal((await records(rig.log, 'UpdateFailed')).length, 0)
  await rig.stop()
})

test('a step that fails ahead is computed again when its batch is sealed, and leaves no record', async () => {
  const rig = await start(true)
  await append(rig.log, [...turn(1, 1), ...turn(2, -1)])
  await rig.gate.asked()
  rig.learner.faults.push(new InstarError('engine_lost', 'gone', { running: 'step' }))
  await append(rig.log, [...turn(3, 1), ...turn(4, -1)])
  rig.gate.held = false
  rig.gate.release()
  await rig.verdict(2)
  assert.equal(rig.learner.steps, 2)
  assert.equal((await records(rig.log, 'UpdateFailed')).length, 0)
  assert.equal((await records(rig.log, 'VersionPublished')).length, 2)
  await rig.stop()
  assert.deepEqual(rig.fatal, [])
})

test('on models/tiny updates that were computed ahead are computed again from the log, bit for bit', async () => {
  const folder = 'models/tiny'
  const [tiny, learner, evaluator] = await Promise.all([
    openModel(folder),
    startLearning({ model: folder }),
    startLearning({ model: folder }),
  ])
  const log = openMemoryLog()
  const [size, batches, temperature] = [4, 3, 0.7]
  for (let n = 0; n < size * batches; n += 1) {
    const session = `tiny ${n}`
    const messages = [{ role: 'user', content: `How much is ${n} plus 2?` }] as const
    const [prompt, ids] = [tiny.promptIds(messages, {}), tiny.encode(`It is ${n + 2}.`)]
    const logprobs = [...(await learner.score({ prompt, completion: ids, adapter: null, temperature }))]
    const [made, scored] = turn(n, n % 2 === 0 ? 1 : -1) as [Records<'TurnCaptured'>[0], Event]
    const sampling = { ...made.sampling, temperature }
    const exact = { ids, logprobs, sampling, prompt: { from: null, prefix: 0, ids: prompt, length: prompt.length } }
    const own = { ...captured({ session, messages, answer: `It is ${n + 2}.`, at: now() }), ...exact }
    await append(log, [own, { ...scored, turn: own.turn, session, subject: session } as Event])
  }
  const settled = Promise.withResolvers<void>()
  let verdicts = 0
  const ports = { log, model: tiny, now, onFatal: settled.reject }
  let seals = 0
  /** For each step, how many batches were sealed when it began. */
  const steps: number[] = []
  const counted: LearningEngine = Object.assign(Object.create(learner) as LearningEngine, {
    step: (...args: Parameters<LearningEngine['step']>) => {
      steps.push(seals)
      return learner.step(...args)
    },
  })
  const trainer = createTrainer(
    {
      ...ports,
      learner: counted,
      ahead: true,
      onProgress: ({ phase }) => {
        if (phase === 'sealed') seals += 1
      },
    },
    trainerConfig.parse({ batchSize: size, batchMax: size, ahead: true, subjectShare: 1 }),
  )
  const publisher = createPublisher(
    {
      ...ports,
      evaluator,
      probes: NO_PROBES,
      onProgress: () => {
        verdicts += 1
        if (verdicts === batches) settled.resolve()
      },
    },
    publisherConfig.parse({
      samples: 4,
      fixedSamples: 0,
      thresholds: { klParent: 9, klBase: 9, positiveDrop: 9, lengthFactor: 99 },
    }),
  )
  try {
    await Promise.all([trainer.start(), publisher.start()])
    await settled.promise
    await Promise.all([trainer.stop(), publisher.stop()])
    assert.equal((await records(log, 'VersionPublished')).length, batches)
    // Each step but the first began before its batch was sealed.
    assert.deepEqual(steps, [1, 1, 2])
    const report = await verify({ log, learner: evaluator, model: tiny }, 'policy', null)
    assert.deepEqual(
      [report.ok, report.batches.map(({ mode }) => mode)],
      [true, ['recompute', 'recompute', 'recompute']],
    )
  } finally {
    await Promise.all([learner.close(), evaluator.close(), trainer.stop(), publisher.stop()])
  }
})
