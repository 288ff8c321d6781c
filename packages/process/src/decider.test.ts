/** A fifth service on the runtime of trainer, publisher and scorer: a core, an `act` and an entry in the flow table. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  decodeRecord,
  encodeEvent,
  FLOW,
  foldWeights,
  initialWeights,
  InstarError,
  weightLine,
  type Event,
  type LearningFrozen,
  type Logged,
  type TopicAccess,
  type WeightsEvent,
  type WeightsState,
} from '@instar/events'
import {
  openMemoryLog,
  openSnapshots,
  storedWeights,
  type EventLog,
  type MemoryLog,
  type SnapshotStore,
} from '@instar/log'
import { runDecider, type Decider, type DeciderOptions } from './decider.ts'

/** Freezes learning when the head's answers became longer than `LENGTH_LIMIT` tokens. */
type Evaluate = { do: 'evaluate'; version: number; length: number }
const LENGTH_LIMIT = 100
const POLICY = 'policy'
const EVALUATOR_FLOW: TopicAccess = {
  ...FLOW,
  weights: {
    readers: [...FLOW.weights.readers, 'evaluator'],
    writers: [...FLOW.weights.writers, 'evaluator'],
  },
}

type Options = DeciderOptions<WeightsState, Evaluate>

const evaluator = (
  log: EventLog,
  changes: Partial<Options> = {},
  { snapshots, onFatal = () => undefined }: { snapshots?: SnapshotStore; onFatal?: (error: Error) => void } = {},
): Decider<WeightsState> =>
  runDecider<WeightsState, Evaluate>({
    ports: { log, snapshots, now: () => 7, onFatal },
    service: 'evaluator',
    policy: POLICY,
    topics: ['weights'],
    assignment: 'weights',
    snapshot: { version: () => 'evaluator 1', state: storedWeights },
    core: {
      initialState: initialWeights,
      evolve: (state, logged) => foldWeights(state, logged as Logged<WeightsEvent>),
      decide(state, { assigned }) {
        const line = weightLine(state, POLICY)
        const length = line.versions.get(line.head)?.published?.figures.length ?? 0
        if (!assigned(0)) return { do: 'wait', why: 'standby' }
        return line.frozen || length <= LENGTH_LIMIT
          ? { do: 'wait', why: 'versions' }
          : { do: 'evaluate', version: line.head, length }
      },
    },
    act: async (decision, { state }) => frozen(state, `version ${decision.version}: ${decision.length} tokens`),
    flow: EVALUATOR_FLOW,
    ...changes,
  })

const frozen = (state: WeightsState, why: string): LearningFrozen => ({
  type: 'LearningFrozen',
  prev: weightLine(state, POLICY).chain.tip,
  policy: POLICY,
  on: true,
  who: 'evaluator',
  why,
  request: `evaluator ${why}`,
  at: 7,
})

const onePartition = (): MemoryLog => openMemoryLog({ partitions: { weights: 1 } })

/** A line with one version for each length. */
const publish = async (log: EventLog, ...lengths: readonly number[]): Promise<void> => {
  const base = { name: 'm', sha256: 'base' }
  let prev = ''
  const append = async (event: Event): Promise<void> => {
    const { id, ...record } = encodeEvent(event)
    prev = id
    await log.append([record])
  }
  await append({
    type: 'LineStarted',
    prev,
    policy: POLICY,
    mode: 'live',
    base,
    parent: null,
    settings: {},
    at: 1,
  })
  for (const [at, length] of lengths.entries())
    await append({
      type: 'VersionPublished',
      prev,
      policy: POLICY,
      number: at + 1,
      update: `u${at}`,
      adapter: 'a',
      adapterBytes: 1,
      state: 's',
      blobsAt: 0,
      parent: at,
      why: 'update',
      source: null,
      figures: { length },
      at: 2,
    })
}

const freezes = async (log: EventLog): Promise<string[]> => {
  const found: string[] = []
  for await (const records of log.read('weights'))
    for (const record of records) {
      const { event } = decodeRecord(record)
      if (event.type === 'LearningFrozen') found.push(event.why)
    }
  return found
}

test('a core, an act and an entry in the flow table are a service: it reads, decides, appends once', async () => {
  const log = onePartition()
  await publish(log, 40, 140)
  const service = evaluator(log)
  assert.equal(service.waits(), 'starting')
  await service.start()
  assert.equal(await service.settled(), true)
  assert.deepEqual(await freezes(log), ['version 2: 140 tokens'])
  assert.equal(weightLine(service.state, POLICY).frozen, true)
  assert.equal(service.waits(), 'versions')
  await service.stop()
})

test('a topic that the flow table does not give to a service is neither read nor written by it', async () => {
  const log = onePartition()
  await publish(log, 140)
  const { readers, writers } = EVALUATOR_FLOW.weights
  const refused = (side: string): { code: string; message: RegExp } => ({
    code: 'internal',
    message: new RegExp(`evaluator is not among the ${side} of weights in the flow table`),
  })
  const without = (weights: TopicAccess['weights']): Partial<Options> => ({ flow: { ...EVALUATOR_FLOW, weights } })
  assert.throws(() => evaluator(log, without({ readers: FLOW.weights.readers, writers })), refused('readers'))
  const fatal = Promise.withResolvers<Error>()
  const service = evaluator(log, without({ readers, writers: FLOW.weights.writers }), { onFatal: fatal.resolve })
  await service.start()
  const { message } = await fatal.promise
  assert.match(message, refused('writers').message)
  assert.deepEqual(await freezes(log), [])
  await service.stop()
})

test('the next decision waits until the record of the last is read back', async () => {
  const log = onePartition()
  await publish(log, 140)
  const durable = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const delivered: EventLog = {
    ...bound(log),
    subscribe: (options) =>
      log.subscribe({
        ...options,
        async handle(records) {
          if (records.some(({ schema }) => schema.startsWith('LearningFrozen'))) await release.promise
          await options.handle(records)
        },
      }),
  }
  const service = evaluator(delivered, { onAppended: () => durable.resolve() })
  await service.start()
  await durable.promise
  for (let i = 0; i < 3; i += 1) {
    service.wake()
    await new Promise(setImmediate)
  }
  assert.deepEqual(await freezes(log), ['version 1: 140 tokens'])
  release.resolve()
  assert.equal(await service.settled(), true)
  assert.deepEqual(await freezes(log), ['version 1: 140 tokens'])
  await service.stop()
})

test('a fault that passes is tried again and its code is shown; one that stays is given up by a record', async () => {
  const log = onePartition()
  await publish(log, 140)
  const faults = [
    new InstarError('engine_lost', 'the engine is away'),
    new InstarError('bad_record', 'the version cannot be read'),
  ]
  const codes: (string | null)[] = []
  const service: Decider<WeightsState> = evaluator(log, {
    async act() {
      codes.push(service.retrying())
      setImmediate(() => codes.push(service.retrying()))
      throw faults.shift()!
    },
    giveUp: (decision, { code, error }, state) =>
      frozen(state, `version ${decision.version}: ${code}, ${error.message}`),
  })
  await service.start()
  assert.equal(await service.settled(), true)
  assert.deepEqual(codes.slice(0, 3), [null, 'engine_lost', null])
  assert.deepEqual(await freezes(log), ['version 1: bad_record, the version cannot be read'])
  await service.stop()
})

test('without giveUp a fault that stays ends the service', async () => {
  const log = onePartition()
  await publish(log, 140)
  const fatal = Promise.withResolvers<Error>()
  const fault = new InstarError('bad_record', 'the version cannot be read')
  const service = evaluator(log, { act: () => Promise.reject(fault) }, { onFatal: fatal.resolve })
  await service.start()
  assert.equal(await fatal.promise, fault)
  await service.stop()
})

test('nothing is decided for partitions of others; it begins when they are assigned', async () => {
  const log = onePartition()
  await publish(log, 140)
  let owned = false
  let changed = (): void => undefined
  const assignedBy: EventLog = {
    ...bound(log),
    async joinGroup(_group, topic, onChange) {
      assert.equal(topic, 'weights')
      changed = onChange
      return { owns: () => owned, leave: () => Promise.resolve() }
    },
  }
  const service = evaluator(assignedBy)
  await service.start()
  assert.equal(await service.settled(), true)
  assert.deepEqual([service.waits(), await freezes(log)], ['standby', []])
  owned = true
  changed()
  assert.equal(await service.settled(), true)
  assert.deepEqual(await freezes(log), ['version 1: 140 tokens'])
  await service.stop()
})

test('a decision that waits for time is made again without a record', async () => {
  const log = onePartition()
  await publish(log, 140)
  const waited = Promise.withResolvers<void>()
  let calls = 0
  const service = evaluator(log, {
    core: {
      initialState: initialWeights,
      evolve: (state, logged) => foldWeights(state, logged as Logged<WeightsEvent>),
      decide() {
        calls += 1
        if (calls === 2) waited.resolve()
        return { do: 'wait', why: 'time', ...(calls === 1 ? { againMs: 1 } : {}) }
      },
    },
  })
  await service.start()
  await waited.promise
  await service.stop()
})

test('it goes on from its snapshot: records before it are not folded again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-decider-'))
  try {
    const log = onePartition()
    await publish(log, 40, 140)
    const first = evaluator(log, {}, { snapshots: openSnapshots(folder) })
    await first.start()
    await first.settled()
    await first.stop()
    const folded: string[] = []
    const second = evaluator(
      log,
      {
        core: {
          initialState: initialWeights,
          evolve(state, logged) {
            folded.push(logged.event.type)
            return foldWeights(state, logged as Logged<WeightsEvent>)
          },
          decide: () => ({ do: 'wait', why: 'versions' }),
        },
      },
      { snapshots: openSnapshots(folder) },
    )
    await second.start()
    assert.deepEqual([folded, weightLine(second.state, POLICY).head], [[], 2])
    assert.equal(weightLine(second.state, POLICY).frozen, true)
    await second.stop()
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('stop waits for work in the background and reports no fault of it', async () => {
  const log = onePartition()
  const faults: Error[] = []
  const service = evaluator(log, {}, { onFatal: (error) => faults.push(error) })
  await service.start()
  let ended = false
  service.background(
    new Promise((_, reject) => {
      service.signal.addEventListener('abort', () =>
        setImmediate(() => {
          ended = true
          reject(new Error('aborted'))
        }),
      )
    }),
  )
  assert.equal(service.backgroundCount(), 1)
  await service.stop()
  assert.deepEqual([ended, faults, service.backgroundCount()], [true, [], 0])
})

/** The log's methods as own properties, so that one of them can be replaced. */
const bound = (log: EventLog): EventLog => ({
  append: (records) => log.append(records),
  subscribe: (options) => log.subscribe(options),
  read: (topic, options) => log.read(topic, options),
  joinGroup: (group, topic, onChange) => log.joinGroup(group, topic, onChange),
  at: (position) => log.at(position),
  ends: (topics) => log.ends(topics),
  partitions: (topic) => log.partitions(topic),
  close: () => log.close(),
})
