/** Checkpoints that a running service writes: when, how many stay, how large they may be, and what an attempt in vain costs. */
import { encodeEvent, type Event, type StateCheckpointed } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import {
  checkpointsOn,
  isDue,
  openMemoryLog,
  stateName,
  turnsBehind,
  verifyCheckpoints,
  type EventLog,
  type MemoryLog,
  type StoredFold,
} from '@instar/log'
import { createMetrics, startCheckpoints, type Checkpointing, type Metrics, type Settings } from '@instar/process'
import { publisherFold } from '@instar/publisher'
import { scorerFold } from '@instar/scorer'
import { auditFold, trainerFold } from '@instar/trainer'
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gatewayFold } from '../../services/gateway/src/session/stored-fold.ts'
import { POLICY, randomHistory } from '../kit/histories.ts'
import { seeded } from '../kit/random.ts'

const FOLDS: readonly StoredFold[] = [scorerFold, trainerFold, publisherFold, gatewayFold, auditFold]
const MINUTE = 60_000
const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-running-checkpoints-'))
  folders.push(path)
  return path
}

type Rig = {
  log: MemoryLog
  files: string
  metrics: Metrics
  lines: string[]
  clock: { now: number }
  running: Checkpointing
  append(events: readonly Event[]): Promise<void>
  states(service: string): Promise<StateCheckpointed[]>
  /** `instar_checkpoints_total` of a state. */
  counted(state: string, outcome: string): Promise<number>
}

const rig = (
  checkpointing: Partial<Settings['checkpointing']>,
  { log = openMemoryLog(), owns = () => true }: { log?: MemoryLog; owns?: () => boolean } = {},
): Rig => {
  const files = folder()
  const clock = { now: 1_000_000 }
  const metrics = createMetrics()
  const lines: string[] = []
  const running = startCheckpoints(
    { log, metrics, now: () => clock.now, logLine: (line) => void lines.push(line) },
    {
      folds: FOLDS,
      policy: POLICY,
      settings: {
        checkpoints: files,
        checkpointing: { turns: null, ms: null, states: ['trainer'], kept: 2, bytes: 2 ** 30, ...checkpointing },
      },
      who: 'up',
      owns,
      pollMs: 2 ** 30,
    },
  )
  return {
    log,
    files,
    metrics,
    lines,
    clock,
    running,
    async append(events) {
      // The look of the start, if it still runs, must not be taken for the next one.
      await running.look()
      await log.append(events.map((event) => encodeEvent(event)))
    },
    async states(service) {
      const fold = FOLDS.find((one) => one.service === service)!
      return (await checkpointsOn(log, stateName(fold, POLICY))).map(({ event }) => event)
    },
    async counted(state, outcome) {
      const line = new RegExp(`^instar_checkpoints_total\\{state="${state}",outcome="${outcome}"\\} (\\d+)$`, 'm')
      return Number(line.exec(await metrics.text())?.[1] ?? 0)
    },
  }
}

const events = (seed: number, count: number): Event[] => randomHistory(seeded(seed), count).events
const turnsOf = (all: readonly Event[], topic: Topic = 'turns'): number =>
  all.filter((event) => encodeEvent(event).topic === topic).length
const ok = async (log: EventLog, files: string): Promise<boolean> =>
  (await verifyCheckpoints(log, FOLDS, { folder: files, observer: { onProgress: () => undefined } })).ok

test('a checkpoint is due by turns or by time, whichever comes first, and never without a new turn', () => {
  const every = { turns: 10, ms: 1000 }
  assert.equal(isDue(every, { turns: 10, ms: 0 }), true)
  assert.equal(isDue(every, { turns: 9, ms: 999 }), false)
  assert.equal(isDue(every, { turns: 1, ms: 1000 }), true)
  assert.equal(isDue(every, { turns: 0, ms: Infinity }), false)
  assert.equal(isDue({ turns: null, ms: 1000 }, { turns: 1e9, ms: 999 }), false)
  assert.equal(isDue({ turns: 10, ms: null }, { turns: 9, ms: Infinity }), false)
  const positions = [
    { topic: 'turns', partition: 0, next: 30, record: 'a' },
    { topic: 'turns', partition: 1, next: 20, record: 'b' },
    { topic: 'scores', partition: 0, next: 500, record: 'c' },
  ]
  const ends = { turns: { 0: 35, 1: 40, 2: 5 } }
  // Offsets of a partition each, and those of one sequence.
  assert.equal(turnsBehind({}, positions, ends), 30)
  assert.equal(turnsBehind({ sequential: true }, positions, ends), 10)
  assert.equal(turnsBehind({}, [], {}), 0)
  assert.equal(turnsBehind({}, positions, { ...ends, scores: { 0: 507 } }, 'scores'), 7)
})

test('nothing is written unless the settings say when, nor by a process that does not own the work', async () => {
  const off = rig({ states: ['trainer', 'audit'] })
  await off.append(events(1, 300))
  await off.running.look()
  assert.deepEqual([await off.states('trainer'), readdirSync(off.files)], [[], []])
  let owns = false
  const shared = rig({ turns: 1 }, { owns: () => owns })
  await shared.append(events(1, 300))
  await shared.running.look()
  assert.deepEqual([await shared.states('trainer'), readdirSync(shared.files)], [[], []])
  owns = true
  await shared.running.look()
  assert.equal((await shared.states('trainer')).length, 1)
  await shared.running.stop()
})

test('every so many turns each state gets a checkpoint that verifies; the newest files stay', async () => {
  const all = events(5, 900)
  const turns = turnsOf(all)
  const every = Math.floor(turns / 5)
  const { log, files, running, append, states, counted, lines, metrics, clock } = rig({
    turns: every,
    states: ['scorer', 'trainer', 'publisher', 'gateway', 'audit'],
    kept: 3,
  })
  await running.look()
  assert.equal(await counted('trainer', 'written'), 0)
  // The publisher reads no turns: its scores are counted.
  const due = { turns: { since: 0, expected: 0 }, scores: { since: 0, expected: 0 } }
  for (let at = 0; at < all.length; at += 30) {
    const some = all.slice(at, at + 30)
    await append(some)
    clock.now += MINUTE
    await running.look()
    for (const topic of ['turns', 'scores'] as const) {
      const of = due[topic]
      of.since += turnsOf(some, topic)
      if (of.since >= every) due[topic] = { since: 0, expected: of.expected + 1 }
    }
  }
  const { expected } = due.turns
  assert.ok(expected >= 4, `${expected}`)
  assert.ok(due.scores.expected >= 1, `${due.scores.expected}`)
  for (const { service } of FOLDS) {
    const written = await states(service)
    const count = service === 'publisher' ? due.scores.expected : expected
    assert.deepEqual([service, written.length, await counted(service, 'written')], [service, count, count])
    assert.ok(written.every(({ who }) => who === 'up'))
    const kept = written.slice(-3).map(({ name, file }) => `${name}.${file}.state.zst`)
    assert.deepEqual(
      readdirSync(files)
        .filter((name) => name.startsWith(`${service}.`))
        .sort(),
      kept.sort(),
    )
  }
  assert.equal(await ok(log, files), true)
  assert.equal(lines.filter((line) => line.startsWith('checkpoint of trainer.policy written: ')).length, expected)
  const [newest] = (await states('audit')).slice(-1)
  const text = await metrics.text()
  assert.match(text, new RegExp(`^instar_checkpoint_bytes\\{state="audit"\\} ${newest!.bytes}$`, 'm'))
  assert.match(
    text,
    new RegExp(`^instar_checkpoint_age_seconds\\{state="audit"\\} ${(clock.now - newest!.at) / 1000}$`, 'm'),
  )
  await running.stop()
})

test('by the clock a checkpoint is written when the newest on the log is so old, that of another process among them', async () => {
  const { log, files, running, append, states, clock } = rig({ ms: 60 * MINUTE })
  await append(events(2, 200))
  await running.look()
  assert.equal((await states('trainer')).length, 1)
  await append(events(3, 200))
  clock.now += 59 * MINUTE
  await running.look()
  assert.equal((await states('trainer')).length, 1)
  const other = rig({ turns: 1 }, { log })
  other.clock.now = clock.now
  await other.running.look()
  await other.running.stop()
  assert.equal((await states('trainer')).length, 2)
  await append(events(4, 200))
  clock.now += MINUTE
  await running.look()
  assert.equal((await states('trainer')).length, 2, 'that of the other process is a minute old')
  clock.now += 59 * MINUTE
  await running.look()
  assert.equal((await states('trainer')).length, 3)
  clock.now += 600 * MINUTE
  await running.look()
  assert.equal((await states('trainer')).length, 3, 'no turn is new')
  assert.equal(await ok(log, files), true)
  await running.stop()
})

test('a state beyond the bytes is not recorded and leaves no file; the next attempts are 10, 20 and 40 minutes later', async () => {
  const { log, files, running, append, states, counted, clock, lines } = rig({ turns: 1, bytes: 100 })
  await append(events(2, 200))
  const tries = [0, 9, 1, 19, 1, 39, 1]
  const counts: number[] = []
  for (const minutes of tries) {
    clock.now += minutes * MINUTE
    await running.look()
    counts.push(await counted('trainer', 'too_large'))
  }
  assert.deepEqual(counts, [1, 1, 2, 2, 3, 3, 4])
  assert.deepEqual([await states('trainer'), readdirSync(files)], [[], []])
  assert.match(lines[0]!, /^no checkpoint of trainer\.policy: its file has \d+ bytes, and 100 are allowed$/)
  assert.equal(await ok(log, files), true)
  await running.stop()
})

test('records that nobody can read are folded again after 10 minutes, and not at every look', async () => {
  const { log, running, append, states, counted, clock } = rig({ turns: 1 })
  await append(events(2, 200))
  await running.look()
  const nonsense = {
    topic: 'turns',
    key: 's',
    schema: 'TurnCaptured.v2',
    payload: Buffer.from('nonsense'),
    timestamp: 1,
  } as const
  await log.append([nonsense])
  const counts: number[] = []
  for (const minutes of [0, 9, 1, 1]) {
    clock.now += minutes * MINUTE
    await running.look()
    counts.push(await counted('trainer', 'unchanged'))
  }
  assert.deepEqual([counts, (await states('trainer')).length], [[1, 1, 2, 2], 1])
  await running.stop()
})

test('a stop while the state of the checkpoint before is read ends that reading, and leaves no file', async () => {
  const { log, files, running, append, states, counted } = rig({ turns: 1 })
  await append(events(2, 400))
  await running.look()
  await append(events(3, 400))
  const there = readdirSync(files)
  const read = log.read.bind(log)
  const topics: string[] = []
  log.read = (topic, options) => {
    topics.push(topic)
    // Twice to know the newest, once to start from it.
    if (topics.filter((one) => one === 'upgrades').length === 3) void running.stop()
    return read(topic, options)
  }
  await running.look()
  await running.stop()
  assert.deepEqual([...new Set(topics)], ['upgrades'])
  assert.deepEqual(
    [(await states('trainer')).length, readdirSync(files), await counted('trainer', 'failed')],
    [1, there, 0],
  )
  // Other test files may have theirs meanwhile.
  const own = new RegExp(`^instar-checkpoint-${process.pid}\\b`)
  assert.deepEqual(
    readdirSync(tmpdir()).filter((name) => own.test(name)),
    [],
  )
})

test('after a checkpoint the next one of that state waits at least twenty times as long as it took', async () => {
  const { log, running, append, states, clock } = rig({ turns: 1, states: ['trainer', 'publisher'] })
  const read = log.read.bind(log)
  const count = async (): Promise<[number, number]> => [
    (await states('trainer')).length,
    (await states('publisher')).length,
  ]
  await append(events(2, 200))
  let slow = true
  log.read = (topic, options) => {
    // The trainer's, which is the first, takes three minutes.
    if (slow && topic === 'scores') clock.now += 3 * MINUTE
    if (topic === 'weights') slow = false
    return read(topic, options)
  }
  await running.look()
  assert.deepEqual(await count(), [1, 1])
  for (const [minutes, expected] of [
    [0, [1, 2]],
    [59, [1, 3]],
    [1, [2, 4]],
    [0, [3, 5]],
  ] as const) {
    await append(events(3, 100))
    clock.now += minutes * MINUTE
    await running.look()
    assert.deepEqual(await count(), expected, `${minutes}`)
  }
  await running.stop()
})

test('older files go where the newest and they are larger than the bytes together', async () => {
  const first = rig({ turns: 1, kept: 5 })
  await first.append(events(2, 200))
  await first.running.look()
  const [{ bytes }] = (await first.states('trainer')) as [StateCheckpointed]
  await first.running.stop()
  const { files, running, append, states } = rig({ turns: 1, kept: 5, bytes: Math.round(3.5 * bytes) })
  for (let i = 0; i < 6; i += 1) {
    await append(events(2 + i, 200))
    await running.look()
  }
  const written = await states('trainer')
  const sizes = new Map(written.map((event) => [`${event.name}.${event.file}.state.zst`, event.bytes]))
  const total = readdirSync(files).reduce((sum, name) => sum + sizes.get(name)!, 0)
  assert.ok(written.length > 1 && readdirSync(files).length < written.length)
  assert.ok(total <= 3.5 * bytes, `${total} of ${3.5 * bytes}`)
  assert.ok(readdirSync(files).some((name) => name.includes(written.at(-1)!.file)))
  await running.stop()
})

test('an error is logged and counted and ends nothing; a stop in the middle of a fold leaves neither record nor file', async () => {
  const { log, files, running, append, states, counted, clock, lines } = rig({ turns: 1 })
  await append(events(2, 400))
  const read = log.read.bind(log)
  log.read = (topic, options) => {
    if (topic === 'scores') throw new Error('no brokers')
    return read(topic, options)
  }
  await running.look()
  assert.deepEqual(
    [await counted('trainer', 'failed'), lines],
    [1, ['no checkpoint of trainer.policy: Error: no brokers']],
  )
  log.read = (topic, options) => {
    if (topic === 'scores') void running.stop()
    return read(topic, options)
  }
  clock.now += 10 * MINUTE
  await running.look()
  await running.stop()
  assert.deepEqual([await states('trainer'), readdirSync(files), await counted('trainer', 'failed')], [[], [], 1])
  log.read = read
  await running.look()
  assert.deepEqual(await states('trainer'), [], 'after the stop nothing is written')
})
