/** Trainer and publisher on their ports: the records that they leave when their engine or the log fails. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import {
  answerKey,
  contentSha,
  decodeRecord,
  encodeEvent,
  InstarError,
  TOPICS,
  updateLine,
  weightLine,
  written,
  type Event,
  type MemoryUpdateLine,
} from '@instar/events'
import { logWith, openMemoryLog, type EventLog, type LogRecord, type MemoryLog } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig, type Publisher } from '@instar/publisher'
import { createTrainer, trainerConfig, type Trainer } from '@instar/trainer'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

const BODY = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'q' }] }))
const model = SCRIPTED_MODEL

let clock = 1_000
const now = (): number => (clock += 1)

const append = async (log: MemoryLog, ...events: Event[]): Promise<void> => {
  for (const event of events) {
    const { id: _, ...record } = encodeEvent(event)
    await log.append([record])
  }
}

const turn = (n: number, reward: number, hint: string | null = null): Event[] => [
  {
    type: 'TurnCaptured',
    finish: 'stop',
    turn: `s.${n}`,
    session: 's',
    policy: 'policy',
    version: 0,
    adapter: null,
    group: String(n),
    candidate: 0,
    candidates: 1,
    dialect: 'chat',
    kind: 'main',
    labelSource: 'header',
    userTurn: null,
    subject: 'u',
    key: null,
    digest: String(n),
    body: {
      from: null,
      prefix: 0,
      suffix: 0,
      written: { keyId: null, bytes: BODY },
      blob: null,
      length: BODY.length,
      sha256: contentSha(BODY),
    },
    after: null,
    stateFrom: 0,
    prompt: { from: null, prefix: 0, ids: [1], length: 1 },
    sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 5, stop: [] },
    tokens: 'exact',
    ids: [2, 3],
    logprobs: [-0.5, -0.5],
    text: written('a'),
    toolCallIds: [],
    answer: answerKey(String(n), []),
    trainable: true,
    reason: null,
    offPrefix: false,
    engine: 'e',
    at: now(),
    firstTokenAt: clock,
    finishedAt: clock,
  },
  {
    type: 'TurnScored',
    turn: `s.${n}`,
    session: 's',
    policy: 'policy',
    version: 0,
    subject: 'u',
    verdicts: [],
    cause: 'c',
    rank: null,
    at: now(),
    reward,
    judge: 'j',
    hint: hint === null ? null : written(hint),
    hintJudge: null,
  },
]

const records = async (log: MemoryLog, type?: Event['type']): Promise<Event[]> => {
  const found: Event[] = []
  for (const topic of TOPICS)
    for await (const batch of log.read(topic)) for (const record of batch) found.push(decodeRecord(record).event)
  return type === undefined ? found : found.filter((event) => event.type === type)
}

type Rig = {
  log: MemoryLog
  learner: ScriptedLearner
  trainer: Trainer
  publisher: Publisher
  fatal: Error[]
  until(type: Event['type'], count: number): Promise<Event[]>
  stop(): Promise<void>
}

const start = async (log = openMemoryLog(), lossesFolder?: string): Promise<Rig> => {
  const learner = new ScriptedLearner()
  const fatal: Error[] = []
  const ports = {
    log,
    learner,
    model,
    now,
    onFatal: (error: Error) => {
      fatal.push(error)
    },
  }
  const trainer = createTrainer(
    { ...ports, ...(lossesFolder === undefined ? {} : { lossesFolder }) },
    trainerConfig.parse({ batchSize: 2, batchMax: 2 }),
  )
  const publisher = createPublisher({ ...ports, evaluator: learner, probes: NO_PROBES }, publisherConfig.parse({}))
  await Promise.all([trainer.start(), publisher.start()])
  const waiting = new Set<{ type: Event['type']; count: number; resolve: (events: Event[]) => void }>()
  const look = async (): Promise<void> => {
    for (const one of waiting) {
      const found = await records(log, one.type)
      if (found.length < one.count) continue
      waiting.delete(one)
      one.resolve(found)
    }
  }
  const watch = await log.subscribe({ topics: TOPICS, group: 'watch', from: 'start', handle: look })
  return {
    log,
    learner,
    trainer,
    publisher,
    fatal,
    until: (type, count) =>
      new Promise((resolve) => {
        waiting.add({ type, count, resolve })
        void look()
      }),
    async stop() {
      await watch.stop()
      await Promise.all([trainer.stop(), publisher.stop()])
    },
  }
}

test('a batch becomes an update and a version, and the next batch starts from it', async () => {
  const rig = await start()
  await append(rig.log, ...turn(1, 1), ...turn(2, -1), ...turn(3, 1), ...turn(4, -1))
  const published = await rig.until('VersionPublished', 2)
  await rig.stop()
  assert.deepEqual(
    published.map((e) => e.type === 'VersionPublished' && [e.number, e.parent]),
    [
      [1, 0],
      [2, 1],
    ],
  )
  const sealed = (await records(rig.log, 'BatchSealed')) as Extract<Event, { type: 'BatchSealed' }>[]
  assert.equal(sealed[1]?.parent.adapter, (published[0] as Extract<Event, { type: 'VersionPublished' }>).adapter)
  assert.equal(rig.learner.steps, 2)
  assert.deepEqual(rig.fatal, [])
})

/** Records of `turns` are delivered to whoever waits for all of them, as where they are read late; `late` says from when on. */
const withLateTurns = (log: MemoryLog, late: () => boolean): EventLog =>
  logWith(log, {
    async subscribe(options) {
      const held: LogRecord[] = []
      const subscription = await log.subscribe({
        ...options,
        handle(records) {
          const isHeld = ({ topic }: LogRecord): boolean => topic === 'turns' && late()
          held.push(...records.filter(isHeld))
          return options.handle(records.filter((record) => !isHeld(record)))
        },
      })
      const handled = subscription.caughtUp.bind(subscription)
      return Object.assign(subscription, {
        async caughtUp() {
          await handled()
          await options.handle(held.splice(0))
        },
      })
    },
  })

test('a batch of another trainer whose turns are not read yet is computed when they are', async () => {
  const rig = await start()
  await rig.until('LineStarted', 1)
  // Seals, and does not compute.
  const step = Promise.withResolvers<never>()
  rig.learner.step = () => step.promise
  const learner = new ScriptedLearner()
  let late = false
  const second = createTrainer(
    { log: withLateTurns(rig.log, () => late), learner, model, now, onFatal: (error) => void rig.fatal.push(error) },
    trainerConfig.parse({ batchSize: 2, batchMax: 2 }),
  )
  await second.start()
  late = true
  await append(rig.log, ...turn(1, 1), ...turn(2, -1))
  await Promise.race([rig.until('UpdateComputed', 1), rig.until('UpdateFailed', 1)])
  step.reject(new InstarError('engine_lost', 'gone'))
  await Promise.all([rig.stop(), second.stop()])
  assert.equal((await records(rig.log, 'UpdateFailed')).length, 0)
  assert.equal(learner.steps, 1)
  assert.deepEqual(rig.fatal, [])
})

test('an engine that is lost repeatedly leaves no record, and the batch is computed after its return', async () => {
  const rig = await start()
  await rig.until('LineStarted', 1)
  for (let i = 0; i < 5; i += 1)
    rig.learner.faults.push(new InstarError('engine_lost', 'gone', i === 0 ? {} : { running: 'step' }))
  await append(rig.log, ...turn(1, 1), ...turn(2, -1))
  await rig.until('UpdateComputed', 1)
  await rig.until('VersionPublished', 1)
  await rig.stop()
  assert.equal((await records(rig.log, 'UpdateFailed')).length, 0)
  assert.equal((await records(rig.log, 'BatchSealed')).length, 1)
})

test('a batch that ends its engine five times in a row has failed, and the next one is processed', async () => {
  const rig = await start()
  await rig.until('LineStarted', 1)
  const ended = new InstarError('engine_lost', 'The learning thread ended: out of memory.', { running: 'step' })
  for (let i = 0; i < 5; i += 1) rig.learner.faults.push(ended)
  await append(rig.log, ...turn(1, 1), ...turn(2, -1), ...turn(3, 1), ...turn(4, -1))
  const [update] = await rig.until('UpdateComputed', 1)
  await rig.stop()
  assert.deepEqual(
    (await records(rig.log, 'UpdateFailed')).map((event) => event.type === 'UpdateFailed' && event.reason),
    ['engine_lost: The learning thread ended: out of memory. This happened 5 times in a row.'],
  )
  assert.equal(update?.type === 'UpdateComputed' && update.number, 2)
  assert.equal(rig.learner.steps, 1)
})

/** A trainer that is stopped after the learning thread has ended three times at its only batch. */
const lifeOfThreeLosses = async (t: TestContext) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'instar-losses-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const log = openMemoryLog()
  const rig = await start(log, folder)
  await rig.until('LineStarted', 1)
  const third = Promise.withResolvers<void>()
  const calls = { count: 0 }
  const step = (): Promise<never> => {
    calls.count += 1
    if (calls.count === 3) third.resolve()
    return Promise.reject(new InstarError('engine_lost', 'The learning thread ended.', { running: 'step' }))
  }
  rig.learner.step = step
  await append(log, ...turn(1, 1), ...turn(2, -1))
  await third.promise
  await rig.stop()
  const file = path.join(folder, 'trainer.policy.losses.json')
  return { log, folder, calls, step, file, kept: JSON.parse(readFileSync(file, 'utf8')) as { count: number } }
}
const failures = async (log: MemoryLog) =>
  (await records(log, 'UpdateFailed')).map((event) => event.type === 'UpdateFailed' && event.reason)

test('ends of the engine are counted across restarts', async (t) => {
  const { log, folder, calls, step, file, kept } = await lifeOfThreeLosses(t)
  assert.equal(kept.count, calls.count)
  const rig = await start(log, folder)
  rig.learner.step = step
  await rig.until('UpdateFailed', 1)
  await rig.stop()
  assert.equal(calls.count, 5)
  assert.deepEqual(await failures(log), ['engine_lost: The learning thread ended. This happened 5 times in a row.'])
  assert.equal(existsSync(file), false)
})

test('ends of the process are counted: the batch is not computed again after the fifth', async (t) => {
  const { log, folder, calls, step, file, kept } = await lifeOfThreeLosses(t)
  // As a process leaves it that ends in its fifth computation.
  writeFileSync(file, JSON.stringify({ ...kept, count: 5 }))
  const before = calls.count
  const rig = await start(log, folder)
  rig.learner.step = step
  await rig.until('UpdateFailed', 1)
  await rig.stop()
  assert.equal(calls.count, before)
  assert.match(String((await failures(log))[0]), /^engine_lost: The process ended while it computed the batch\. /)
})

test('a fault that repeats fails the batch with a record, and the next one is processed', async () => {
  const rig = await start()
  await rig.until('LineStarted', 1)
  rig.learner.faults.push(new InstarError('update_not_finite', 'nan'))
  await append(rig.log, ...turn(1, 1), ...turn(2, -1), ...turn(3, 1), ...turn(4, -1))
  const [failed] = await rig.until('UpdateFailed', 1)
  await rig.until('VersionPublished', 1)
  await rig.stop()
  assert.match((failed as Extract<Event, { type: 'UpdateFailed' }>).reason, /^update_not_finite: nan/)
  assert.equal((await records(rig.log, 'BatchSealed')).length, 2)
})

test('a batch that a later build sealed, with prompts that this one lacks, fails with that reason, and the next is processed', async () => {
  const log = openMemoryLog()
  const { log: _, ...first } = await start(log)
  await first.until('LineStarted', 1)
  await first.stop()
  const item = { session: 's', score: 's', subject: 'u', version: 0, baseline: 0, hint: null }
  await append(log, ...turn(1, 1), ...turn(2, -1), {
    type: 'BatchSealed',
    prev: '',
    policy: 'policy',
    number: 1,
    parent: { version: 0, adapter: null, state: null },
    items: [1, 2].map((n) => ({ ...item, turn: `s.${n}`, record: `r${n}`, reward: 1, advantage: n === 1 ? 1 : -1 })),
    dropped: [],
    baselines: [],
    seed: 1,
    loss: 'hybrid',
    settings: { rehearsalRows: 1, rehearsalWeight: 1, rehearsalPrompts: 7 },
    at: now(),
  })
  const rig = await start(log)
  await rig.until('UpdateFailed', 1)
  assert.match(
    String((await failures(log))[0]),
    /^other_prompts: batch 1 rehearses prompts \(7\) that this build does not have/,
  )
  await append(log, ...turn(3, 1), ...turn(4, -1))
  await rig.until('VersionPublished', 1)
  await rig.stop()
  assert.deepEqual(rig.fatal, [])
})

test('a batch without signal has a record of that and costs no step', async () => {
  const rig = await start()
  await append(rig.log, ...turn(1, 0), ...turn(2, 0))
  const [failed] = await rig.until('UpdateFailed', 1)
  await rig.stop()
  assert.equal((failed as Extract<Event, { type: 'UpdateFailed' }>).reason, 'no_signal')
  assert.equal(rig.learner.steps, 0)
})

test('a hint that does not fit beside its answer is omitted, and the turn is trained', async () => {
  const rig = await start()
  await append(rig.log, ...turn(1, -1, 'h'.repeat(200)), ...turn(2, 1))
  await rig.until('VersionPublished', 1)
  await rig.stop()
  assert.equal(rig.learner.steps, 1)
})

test('a candidate beyond the limits is rejected and unloaded, and learning continues', async () => {
  const rig = await start()
  await rig.until('LineStarted', 1)
  rig.learner.kl = 0.5
  await append(rig.log, ...turn(1, 1), ...turn(2, -1))
  const [rejected] = await rig.until('VersionRejected', 1)
  rig.learner.kl = 0.001
  await append(rig.log, ...turn(3, 1), ...turn(4, -1))
  const [published] = await rig.until('VersionPublished', 1)
  await rig.stop()
  assert.equal((rejected as Extract<Event, { type: 'VersionRejected' }>).reason, 'kl_parent')
  assert.equal((published as Extract<Event, { type: 'VersionPublished' }>).parent, 0)
  assert.equal(rig.learner.loaded.size, 0)
})

test('a failed promotion is reported to its caller, and the publisher continues', async () => {
  const rig = await start()
  await rig.until('LineStarted', 1)
  await assert.rejects(rig.publisher.promote('policy~nowhere', { who: 'test', why: '' }), { code: 'unknown_branch' })
  await append(rig.log, {
    type: 'LineStarted',
    prev: '',
    policy: 'policy~half',
    mode: 'replay',
    base: { name: 'm', sha256: 'base' },
    parent: null,
    settings: { batches: 3 },
    at: now(),
  })
  await append(rig.log, ...turn(1, 1), ...turn(2, -1))
  await rig.until('VersionPublished', 1)
  await assert.rejects(rig.publisher.promote('policy~half', { who: 'test', why: '' }), { code: 'empty_branch' })
  await rig.stop()
  assert.deepEqual(rig.fatal, [])
})

test('two trainers and two publishers on one log make one chain with each turn in one batch', async () => {
  const log = openMemoryLog()
  const [a, b] = [await start(log), await start(log)]
  await append(log, ...Array.from({ length: 8 }, (_, i) => turn(i, i % 2 ? 1 : -1)).flat())
  const head = ({ trainer }: Rig): number => weightLine(trainer.state.weights, 'policy').head
  while (head(a) < 4 || head(b) < 4)
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
  await Promise.all([a.stop(), b.stop()])
  for (const { trainer } of [a, b]) {
    const line = weightLine(trainer.state.weights, 'policy')
    assert.deepEqual([line.last, line.head], [4, 4])
    const batches = (updateLine(trainer.state.updates, 'policy') as MemoryUpdateLine).batches
    const turns = batches.flatMap((batch) => batch.sealed.items.map((item) => item.turn))
    assert.equal(new Set(turns).size, turns.length)
    assert.equal(turns.length, 8)
  }
})

test('a trainer that is stopped in a computation makes the same batch once after its restart', async () => {
  const log = openMemoryLog()
  const first = await start(log)
  await first.until('LineStarted', 1)
  for (let i = 0; i < 50; i += 1) first.learner.faults.push(new InstarError('engine_lost', 'gone'))
  await append(log, ...turn(1, 1), ...turn(2, -1))
  await first.until('BatchSealed', 1)
  await first.stop()
  const second = await start(log)
  await second.until('VersionPublished', 1)
  await second.stop()
  assert.equal((await records(log, 'BatchSealed')).length, 1)
  assert.equal((await records(log, 'UpdateComputed')).length, 1)
})
