/** Several scorers: the turns that each leaves to the others and takes over from them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, type Event } from '@instar/events'
import {
  isCutAway,
  openMemoryLog,
  openSnapshots,
  partitionOf,
  writeCheckpoint,
  type EventLog,
  type LogRecord,
} from '@instar/log'
import { createMetrics } from '@instar/process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  closeIdle,
  createScorer,
  decide,
  evolve,
  forgetWork,
  initialState,
  judged,
  lookAgain,
  scorerConfig,
  scorerFold,
  stillOurs,
  type Judge,
  type Judged,
  type JudgeRequest,
  type Output,
  type Rules,
  type ScorerPorts,
} from './app.ts'
import { createScorerAcrossCuts } from './across-cuts.ts'
import { cutBelow } from '../../../test/kit/event-log/cut-log.ts'
import { captured, feedback, logged, type Said } from '../../../test/kit/scored-history.ts'

const RULES: Rules = { idleMs: 1000, judgesNeedNextState: true, staleness: null, waiting: null }
const GOOD: Judged = { verdicts: [], reward: 1, judge: 'j', hint: null, hintJudge: null, reason: null }
const user = (content: string): Said => ({ role: 'user', content })
const model = (content: string): Said => ({ role: 'assistant', content })
const talk = (session: string) =>
  [
    captured({ session, messages: [user('hi')], answer: 'A', at: 10, name: 't1' }),
    captured({ session, messages: [user('hi'), model('A'), user('thanks')], answer: 'B', at: 20, name: 't2' }),
  ] as const

/** Session `a` is in partition 0, all others in partition 1. */
class Scene {
  readonly state = initialState()
  owned = new Set<number>()
  offset = 0
  readonly mine = (partition: number): boolean => this.owned.has(partition)
  read(...events: Event[]): void {
    for (const event of events)
      evolve(this.state, {
        ...logged(event, this.offset++),
        partition: 'session' in event && event.session === 'a' ? 0 : 1,
      })
  }
  own(...partitions: number[]): void {
    this.owned = new Set(partitions)
    lookAgain(this.state)
  }
  decide(): Output[] {
    return decide(this.state, RULES, 100, this.mine)
  }
  asked(): string[] {
    return this.decide().map((output) => (output.do === 'judge' ? output.turn : output.event.type))
  }
}

const [a1, a2] = talk('a')
const [b1, b2] = talk('b')

test('only turns of own partitions are judged, and others once their partition is assigned', () => {
  const scene = new Scene()
  scene.own(0)
  scene.read(a1, a2, b1, b2)
  assert.deepEqual(scene.asked(), [a1.turn])
  assert.deepEqual(scene.asked(), [])
  scene.own(0, 1)
  assert.deepEqual(scene.asked(), [b1.turn])
  scene.own(0, 1)
  assert.deepEqual(scene.asked(), [], 'nobody is asked twice')
})

test('turns that the previous owner scored are not judged again', () => {
  const scene = new Scene()
  const other = new Scene()
  for (const one of [scene, other]) one.read(b1, b2)
  other.own(1)
  const [request] = other.decide() as JudgeRequest[]
  const output = judged(other.state, request!, GOOD, 100)
  assert.ok(output?.do === 'append')
  assert.deepEqual(scene.asked(), [])
  scene.read(output.event)
  scene.own(1)
  assert.deepEqual(scene.asked(), [])
  assert.deepEqual([scene.state.needed.size, scene.state.touched.size], [0, 0])
})

test('a judgement that has not begun is dropped with its partition and requested again when it returns', () => {
  const scene = new Scene()
  scene.own(0, 1)
  scene.read(b1, b2)
  const [request] = scene.decide() as JudgeRequest[]
  assert.equal(stillOurs(scene.state, request!, scene.mine), true)
  scene.own(0)
  assert.equal(stillOurs(scene.state, request!, scene.mine), false)
  assert.equal(judged(scene.state, request!, GOOD, 100), null)
  assert.deepEqual(scene.asked(), [])
  scene.own(1)
  assert.deepEqual(scene.asked(), [b1.turn])
})

test('a verdict counts though its partition was reassigned, since duplicates are harmless', () => {
  const scene = new Scene()
  scene.own(1)
  scene.read(b1, b2)
  const [request] = scene.decide() as JudgeRequest[]
  scene.own()
  assert.equal(judged(scene.state, request!, GOOD, 100)?.do, 'append')
})

test('feedback is processed by the owner of the partition', () => {
  const scene = new Scene()
  scene.own(0)
  scene.read(b1, feedback('b', b1.turn, -1, 15))
  assert.deepEqual(scene.asked(), [])
  scene.own(1)
  const [request] = scene.decide() as JudgeRequest[]
  assert.deepEqual([request?.turn, request?.feedback?.value], [b1.turn, -1])
})

test('sessions are closed by the owner of their partition', () => {
  const scene = new Scene()
  scene.own(0)
  scene.read(a1, b1)
  const closed = (): string[] =>
    closeIdle(scene.state, RULES, 5000, scene.mine).outputs.map((output) =>
      output.do === 'append' && output.event.type === 'SessionClosed' ? output.event.session : '?',
    )
  assert.deepEqual(closed(), ['a'])
  scene.own(0, 1)
  assert.deepEqual(closed(), ['b'])
})

test('after a restart from a snapshot foreign and begun turns are examined', () => {
  const scene = new Scene()
  scene.own(0)
  scene.read(a1, a2, b1, b2)
  scene.decide()
  forgetWork(scene.state)
  scene.own(0, 1)
  assert.deepEqual(scene.asked().toSorted(), [a1.turn, b1.turn].toSorted())
})

/** The log of one of several members, whose share the test sets. */
const sharing = (log: EventLog) => {
  let owned = new Set<number>()
  let changed = (): void => undefined
  const read: LogRecord[] = []
  const shared: EventLog = {
    append: (records) => log.append(records),
    subscribe: (options) =>
      log.subscribe({
        ...options,
        handle(records) {
          read.push(...records)
          return options.handle(records)
        },
      }),
    read: (topic, options) => log.read(topic, options),
    at: (position) => log.at(position),
    ends: (topics) => log.ends(topics),
    starts: (topics) => log.starts!(topics),
    partitions: (topic) => log.partitions(topic),
    close: () => log.close(),
    async joinGroup(_group, _topic, onChange) {
      changed = onChange
      // One that joins again gets what it had.
      if (owned.size > 0) queueMicrotask(onChange)
      let left = false
      return {
        owns: (partition) => !left && owned.has(partition),
        async leave() {
          left = true
        },
      }
    },
  }
  return {
    log: shared,
    /** Numbers of records of `turns` that were read since the last call, by partition. */
    turnsRead(): Record<number, number> {
      const turns = read.splice(0).filter(({ topic }) => topic === 'turns')
      const byPartition = [...Map.groupBy(turns, ({ partition }) => partition)]
      return Object.fromEntries(byPartition.map(([partition, of]) => [partition, of.length]))
    },
    give(partitions: readonly number[]) {
      owned = new Set(partitions)
      changed()
    },
  }
}

test('a scorer with an assignment judges waiting turns of its share and leaves the others', async () => {
  const log = openMemoryLog()
  const { log: shared, give } = sharing(log)
  const judgedTurns: string[] = []
  let more = Promise.withResolvers<void>()
  let scored = 0
  const judge: Judge = {
    id: 'j',
    needsNextState: true,
    judge: ({ answer }) => {
      judgedTurns.push(answer)
      return { value: 1, note: '', hint: null }
    },
  }
  const sessions = Array.from({ length: 30 }, (_, i) => `s${i}`)
  const positions = await log.append(
    sessions.flatMap((session) => [...talk(session)]).map((event) => encodeEvent(event)),
  )
  const here = (partition: number): number =>
    positions.filter((position) => position.partition === partition).length / 2
  const scorer = createScorer(
    {
      log: shared,
      now: () => 100,
      onFatal: (error) => {
        throw error
      },
      judges: [judge],
      onScored: () => {
        scored += 1
        more.resolve()
        more = Promise.withResolvers()
      },
    },
    scorerConfig.parse({ idleMs: 1000 }),
  )
  await scorer.start()
  assert.deepEqual([judgedTurns.length, scorer.work().share], [0, 0])
  const until = async (count: number): Promise<void> => {
    while (scored < count) await more.promise
  }
  give([3])
  await until(here(3))
  assert.deepEqual([judgedTurns.length, scorer.work().share], [here(3), 1])
  give([0, 1, 2, 3, 4, 5, 6, 7])
  await until(sessions.length)
  assert.equal(judgedTurns.length, sessions.length)
  await scorer.stop()
})

/** A scorer with a judge that praises everything, on its own share of a log. */
const divided = async (
  log: EventLog,
  folder?: string,
  options: Partial<ScorerPorts> & { checkpoints?: string } = {},
) => {
  const { log: shared, give, turnsRead } = sharing(log)
  const { checkpoints, ...ports } = options
  const asked: string[] = []
  let changed = Promise.withResolvers<void>()
  const settings = { ...(checkpoints ? { checkpoints } : {}), ...(ports.logLine ? { logLine: ports.logLine } : {}) }
  const scorer = createScorerAcrossCuts(
    {
      log: shared,
      ...(folder === undefined ? {} : { snapshots: openSnapshots(folder, settings) }),
      now: () => 100,
      onFatal: (error) => {
        throw error
      },
      judges: [
        {
          id: 'j',
          needsNextState: true,
          judge({ answer }) {
            asked.push(answer)
            return { value: 1, note: '', hint: null }
          },
        },
      ],
      onScored() {
        changed.resolve()
        changed = Promise.withResolvers()
      },
      ...ports,
    },
    scorerConfig.parse({ idleMs: 1000 }),
  )
  await scorer.start()
  return {
    scorer,
    give,
    turnsRead,
    asked,
    async scored(of: number) {
      while ((scorer.state.scores.get('policy')?.turns as Map<string, unknown> | undefined)?.size !== of)
        await changed.promise
    },
  }
}

const PARTITIONS = 8
const ALL = Array.from({ length: PARTITIONS }, (_, partition) => partition)
/** A session of each partition; its talk is two turns, of which the first needs a score. */
const sessionIn = (partition: number, name = ''): string => {
  for (let i = 0; ; i += 1) if (partitionOf(`s${name}${i}`, PARTITIONS) === partition) return `s${name}${i}`
}
const say = async (log: EventLog, partitions: readonly number[], name = ''): Promise<void> => {
  await log.append(
    partitions.flatMap((partition) => [...talk(sessionIn(partition, name))]).map((event) => encodeEvent(event)),
  )
}

test('a scorer reads of `turns` only its partitions, and every score', async () => {
  const log = openMemoryLog()
  const [one, two] = [await divided(log), await divided(log)]
  one.give([0, 1, 2, 3])
  two.give([4, 5, 6, 7])
  await say(log, ALL)
  await Promise.all([one.scored(8), two.scored(8)])
  assert.deepEqual(
    [one.turnsRead(), two.turnsRead()],
    [
      { 0: 2, 1: 2, 2: 2, 3: 2 },
      { 4: 2, 5: 2, 6: 2, 7: 2 },
    ],
  )
  assert.deepEqual([one.asked.length, two.asked.length, one.scorer.work().needed], [4, 4, 0])
  await say(log, ALL, 'later')
  await Promise.all([one.scored(16), two.scored(16)])
  assert.deepEqual(
    [one.turnsRead(), two.turnsRead()],
    [
      { 0: 2, 1: 2, 2: 2, 3: 2 },
      { 4: 2, 5: 2, 6: 2, 7: 2 },
    ],
  )
  await Promise.all([one.scorer.stop(), two.scorer.stop()])
})

test('a new scorer reads everything before anything is assigned to it, and then its partitions', async () => {
  const log = openMemoryLog()
  await say(log, ALL)
  const one = await divided(log)
  assert.deepEqual(one.turnsRead(), Object.fromEntries(ALL.map((partition) => [partition, 2])))
  await say(log, ALL, 'later')
  one.give([3])
  await one.scored(2)
  assert.deepEqual([one.turnsRead(), one.asked.length], [{ 3: 2 }, 2])
  await one.scorer.stop()
})

test('a partition is read from where it was left: at the start, or when it was taken away', async () => {
  const log = openMemoryLog()
  const [one, two] = [await divided(log), await divided(log)]
  one.give([0, 1])
  two.give([2])
  await say(log, ALL)
  await Promise.all([one.scored(3), two.scored(3)])
  one.give([0])
  two.give([1, 2])
  await say(log, [0, 1, 2], 'later')
  await Promise.all([one.scored(6), two.scored(6)])
  assert.deepEqual(
    [one.turnsRead(), two.turnsRead()],
    [
      { 0: 4, 1: 2 },
      { 1: 4, 2: 4 },
    ],
  )
  one.give([0, 1])
  two.give([2])
  assert.equal(await one.scorer.settled(), true)
  assert.deepEqual(one.turnsRead(), { 1: 2 })
  assert.deepEqual([one.asked.length, two.asked.length], [3, 3], 'nothing is judged again')
  await Promise.all([one.scorer.stop(), two.scorer.stop()])
})

test('a scorer that starts again reads its partitions from its snapshot on', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-share-'))
  try {
    const log = openMemoryLog()
    await say(log, ALL)
    const first = await divided(log, folder)
    first.give(ALL)
    while (!(await first.scorer.settled())) await new Promise(setImmediate)
    await first.scorer.stop()
    await say(log, ALL, 'later')
    const again = await divided(log, folder)
    again.give([0, 1, 2])
    while (!(await again.scorer.settled())) await new Promise(setImmediate)
    assert.deepEqual(again.turnsRead(), { 0: 2, 1: 2, 2: 2 })
    assert.equal(again.asked.length, 3)
    await again.scorer.stop()
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a scorer that is given a partition which it read last before a cut starts again from a checkpoint, and ends where there is none', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-share-'))
  try {
    const log = openMemoryLog()
    const lines: string[] = []
    const metrics = createMetrics()
    const checkpoints = join(folder, 'checkpoints')
    const fatal = Promise.withResolvers<Error>()
    const logLine = (line: string): void => void lines.push(line)
    const one = await divided(log, join(folder, 'one'), { checkpoints, logLine, metrics })
    const lost = await divided(log, join(folder, 'lost'), { onFatal: fatal.resolve })
    const two = await divided(log)
    await say(log, ALL)
    for (const scorer of [one, lost]) {
      scorer.give(ALL)
      while (!(await scorer.scorer.settled())) await new Promise(setImmediate)
    }
    one.give([0, 1, 2, 3])
    lost.give([])
    two.give([4, 5, 6, 7])
    await say(log, ALL, 'later')
    await say(log, ALL, 'last')
    for (const { scorer } of [one, two]) while (!(await scorer.settled())) await new Promise(setImmediate)
    const signal = new AbortController().signal
    await writeCheckpoint(log, scorerFold, {
      policy: 'policy',
      folder: checkpoints,
      now: () => 1,
      observer: { onProgress: () => undefined },
      signal,
    })
    const { turns } = await log.ends(['turns'])
    const starts = await cutBelow(
      log,
      { turns: Math.max(...Object.values(turns!)) },
      { archive: '/archive', manifest: 'm' },
    )
    assert.ok(
      [4, 5, 6, 7].every((partition) => starts.turns![partition]! > 16),
      JSON.stringify(starts),
    )

    two.give([])
    one.give(ALL)
    while (!(await one.scorer.settled())) await new Promise(setImmediate)
    assert.match(
      lines.join('\n'),
      /^turns [4-7] begins at offset \d+: .* were cut .*; the scorer starts again, from a checkpoint\n.*the snapshot is not used \(turns [4-7] was cut.*\n.*scorer.policy: starts from the checkpoint of/,
    )
    const asked = one.asked.length
    await say(log, ALL, 'after')
    while (!(await one.scorer.settled())) await new Promise(setImmediate)
    assert.deepEqual([one.asked.length - asked, one.scorer.work().share, one.scorer.work().needed], [8, 8, 0])
    assert.match(await metrics.text(), /instar_scorer_share 8\n/)

    lost.give([5])
    const error = await fatal.promise
    assert.ok(isCutAway(error), error.message)
    await Promise.all([one.scorer.stop(), two.scorer.stop(), lost.scorer.stop()])
  } finally {
    await rm(folder, { recursive: true })
  }
})
