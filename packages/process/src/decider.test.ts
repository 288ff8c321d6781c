/**
 * The runtime of scorer, trainer and publisher, tested with a further service of a core, an `act` and a flow table
 * entry.
 */
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

/** The service freezes learning if the mean length of the head's answers exceeds `LENGTH_LIMIT` tokens. */
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
    snapshot: { version: { number: 1, migrations: {} }, state: storedWeights },
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

/** Writes a line with one version per length. */
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

/** The reasons of the LearningFrozen records. */
const freezes = async (log: EventLog): Promise<string[]> => {
  const reasons: string[] = []
  for await (const records of log.read('weights'))
    for (const record of records) {
      const { event } = decodeRecord(record)
      if (event.type === 'LearningFrozen') reasons.push(event.why)
    }
  return reasons
}

test('a service reads the log, decides, and appends one record per decision', async () => {
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

test('a service can neither read nor write a topic that the flow table does not list for it', async () => {
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

test('the next decision is made after the record of the last act has been read back', async () => {
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

test('an act is repeated after a retryable error, whose code is reported; after another error giveUp writes a record', async () => {
  const log = onePartition()
  await publish(log, 140)
  const faults = [
    new InstarError('engine_lost', 'the engine does not respond'),
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

test('an act that meets a damaged row of the snapshot ends the service, which would meet it for ever', async () => {
  const log = onePartition()
  await publish(log, 140)
  const fatal = Promise.withResolvers<Error>()
  const damaged = new InstarError('snapshot_damaged', 'an entry does not match its checksum')
  let acts = 0
  const service = evaluator(
    log,
    {
      act() {
        acts += 1
        if (acts > 1) fatal.resolve(new Error('it was repeated'))
        return Promise.reject(damaged)
      },
      giveUp: (_, { code }, state) => frozen(state, code),
    },
    { onFatal: fatal.resolve },
  )
  await service.start()
  assert.equal(await fatal.promise, damaged)
  assert.deepEqual(await freezes(log), [])
  await service.stop()
})

test('without giveUp, an error that is not retryable is fatal', async () => {
  const log = onePartition()
  await publish(log, 140)
  const fatal = Promise.withResolvers<Error>()
  const fault = new InstarError('bad_record', 'the version cannot be read')
  const service = evaluator(log, { act: () => Promise.reject(fault) }, { onFatal: fatal.resolve })
  await service.start()
  assert.equal(await fatal.promise, fault)
  await service.stop()
})

test('no decision is made for partitions of other processes until they are assigned', async () => {
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

test('after againMs a decision is made without a new record', async () => {
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

test('a service starts from its snapshot: records before it are not folded again', async () => {
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

test('a service that is to decide again in more than 24.8 days does not decide without end', async (t) => {
  const delays: (number | undefined)[] = []
  const started = globalThis.setTimeout
  t.mock.method(globalThis, 'setTimeout', (then: () => void, ms?: number) => {
    delays.push(ms)
    return started(then, ms)
  })
  let decisions = 0
  const service = evaluator(onePartition(), {
    core: {
      initialState: initialWeights,
      evolve: (state, logged) => foldWeights(state, logged as Logged<WeightsEvent>),
      decide() {
        decisions += 1
        return { do: 'wait', why: 'versions', againMs: 30 * 24 * 3_600_000 }
      },
    },
  })
  await service.start()
  await service.settled()
  await service.stop()
  assert.ok(decisions > 0)
  assert.deepEqual([...new Set(delays.filter((ms) => ms! > 1e9))], [2 ** 31 - 1])
})

test('stop waits for background tasks and does not report their errors', async () => {
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
