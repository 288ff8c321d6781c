/**
 * Several scorers, trainers and publishers as processes on Kafka: each piece of work is done once, and none is missed.
 */
import {
  decodeRecord,
  encodeEvent,
  schemaTexts,
  updateLine,
  foldUpdates,
  foldWeights,
  initialUpdates,
  initialWeights,
  weightLine,
  type Event,
  type Logged,
  type ScoresEvent,
  type Topic,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import { openKafkaLog, setupKafka, type KafkaLog } from '@instar/log/kafka/index'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { range } from '../kit/event-log/harness.ts'
import { captured, type Said } from '../kit/scored-history.ts'
import { membersOf, type MemberProcess, type Members } from '../kit/stack/members.ts'
import { addresses } from '../kit/stack.ts'
import type { WorkerPlace } from './processes/worker.ts'

const SESSION = 4000
const schemas = schemaTexts()
/**
 * Judgements that one has begun (4 at a time), and verdicts that its successor has not read; more on a busy machine. Of
 * 100.
 */
const HANDED_OVER = 20
let count = 0

type Bench = {
  log: KafkaLog
  members: Members<WorkerPlace>
  say(line: string): void
  append(events: readonly Event[]): Promise<void>
  /** The records read from the topic; `until` is checked after each. */
  events<E extends Event>(topic: Topic): Logged<E>[]
  until(holds: () => boolean): Promise<void>
}

const feature = (
  title: string,
  place: Pick<WorkerPlace, 'role' | 'takes' | 'idleMs'>,
  shared: Topic,
  body: (bench: Bench) => Promise<void>,
): void => {
  test(title, { timeout: 120_000 }, async (t) => {
    const { brokers } = addresses()
    const prefix = `w${process.pid}.${count++}.`
    await setupKafka({ brokers, prefix })
    const log = await openKafkaLog({
      brokers,
      prefix,
      clientId: 'watcher',
      schemas,
      registry: new Map(Object.keys(schemas).map((name, i) => [name, i + 1])),
    })
    const members = membersOf<WorkerPlace>(
      'worker',
      { ...place, brokers, prefix, session: SESSION },
      log.partitions(shared),
    )
    const seen: Logged<Event>[] = []
    let changed = Promise.withResolvers<void>()
    const watcher = await log.subscribe({
      topics: ['turns', 'scores', 'updates', 'weights'],
      group: 'watcher',
      from: 'start',
      handle(records) {
        seen.push(...records.map((record) => decodeRecord(record)))
        changed.resolve()
        changed = Promise.withResolvers()
      },
    })
    try {
      await body({
        log,
        members,
        say: (line) => t.diagnostic(line),
        async append(events) {
          await log.append(events.map((event) => encodeEvent(event)))
        },
        events: <E extends Event>(topic: Topic) => seen.filter((logged) => logged.topic === topic) as Logged<E>[],
        async until(holds) {
          while (!holds()) await changed.promise
        },
      })
      await watcher.stop()
    } finally {
      await members.killAll()
      await log.close()
    }
  })
}

/** Two turns of a session, the first of which is to be scored; its answer contains its name. */
const talk = (name: string): Event[] => {
  const said: Said[] = [{ role: 'user', content: 'hi' }]
  return [
    captured({ session: name, messages: said, answer: name, at: Date.now(), name: 't1' }),
    captured({
      session: name,
      messages: [...said, { role: 'assistant', content: name }, { role: 'user', content: 'thanks' }],
      answer: 'B',
      at: Date.now(),
      name: 't2',
    }),
  ]
}
const talks = (from: number, to: number): Event[] => range(to - from).flatMap((i) => talk(`s${from + i}`))
const scored = ({ events }: Bench): number => new Set(events<ScoresEvent>('scores').map(({ event }) => event.turn)).size
const done = (members: readonly MemberProcess[]): string[] => members.flatMap((member) => member.did())
const twice = (of: readonly string[]): number => of.length - new Set(of).size

feature(
  'three scorers judge each turn once, also after kill -9 of one and while one is stopped',
  { role: 'scorer', takes: 40 },
  'turns',
  async (bench) => {
    const { members, append, events, until, say } = bench
    const [a, b, c] = [members.start(), members.start(), members.start()]
    await members.settled([a, b, c])

    await append(talks(0, 60))
    await until(() => scored(bench) === 60)
    assert.equal(events('scores').length, 60)
    assert.equal(done([a, b, c]).length, 60)
    say(`60 turns, judged by each: ${[a, b, c].map((one) => one.did().length).join(', ')}`)
    for (const one of [a, b, c]) assert.ok(one.did().length > 0)

    const begun = c.did().length
    await append(talks(60, 160))
    await members.until(() => c.did().length >= begun + 5)
    await c.kill()
    const killedAt = performance.now()
    await until(() => scored(bench) === 160)
    say(
      `kill -9 of one: everything scored after ${Math.round(performance.now() - killedAt)} ms (session ${SESSION} ms), asked twice: ${twice(done([a, b, c]))}`,
    )
    assert.equal(events('scores').length, 160)
    assert.ok(twice(done([a, b, c])) <= HANDED_OVER, `${twice(done([a, b, c]))} were asked twice`)

    const before = twice(done([a, b, c]))
    const stoppedAt = b.did().length
    await append(talks(160, 260))
    await members.until(() => b.did().length >= stoppedAt + 5)
    b.signal('SIGSTOP')
    await until(() => scored(bench) === 260)
    b.signal('SIGCONT')
    await members.settled([a, b])
    await append(talks(260, 300))
    await until(() => scored(bench) === 300)
    await Promise.all([a.end(), b.end()])
    say(`stopped for longer than a session: asked twice: ${twice(done([a, b, c])) - before}`)
    assert.ok(twice(done([a, b, c])) - before <= HANDED_OVER)
    const scores = events<ScoresEvent>('scores')
    assert.equal(new Set(scores.map(({ event }) => event.turn)).size, 300)
    assert.ok(scores.length <= 300 + HANDED_OVER, `${scores.length} records for 300 turns`)
  },
)

feature(
  'two scorers close each idle session once, and the remaining one closes the rest',
  { role: 'scorer', takes: 1, idleMs: 400 },
  'turns',
  async ({ members, append, events, until }) => {
    const [a, b] = [members.start(), members.start()]
    await members.settled([a, b])
    const quiet = (from: number, to: number): Event[] =>
      range(to - from).map((i) =>
        captured({
          session: `q${from + i}`,
          messages: [{ role: 'user', content: 'hi' }],
          answer: 'A',
          at: Date.now(),
          name: 't',
        }),
      )
    const closings = (): string[] =>
      events('turns').flatMap(({ event }) => (event.type === 'SessionClosed' ? [event.session] : []))
    await append(quiet(0, 20))
    await until(() => new Set(closings()).size === 20)
    assert.equal(closings().length, 20)
    await append(quiet(20, 40))
    await b.kill()
    await until(() => new Set(closings()).size === 40)
    assert.equal(closings().length, 40)
    await a.end()
  },
)

const turns = (from: number, to: number, version = 0): Event[] =>
  range(to - from).flatMap((i) => {
    const [turn] = talk(`u${from + i}`)
    assert.ok(turn?.type === 'TurnCaptured')
    const { turn: id, session, policy, subject } = turn
    return [
      { ...turn, version },
      {
        type: 'TurnScored',
        turn: id,
        session,
        policy,
        version,
        subject,
        verdicts: [],
        cause: 'c',
        rank: null,
        at: 30,
        reward: i % 2 ? 1 : -1,
        judge: 'j',
        hint: null,
        hintJudge: null,
      } satisfies Event,
    ]
  })

/** Batches and versions as a reader folds them; throws if a chain is broken. */
const chains = ({ events }: Bench) => {
  const updates = initialUpdates()
  const weights = initialWeights()
  const ignored: string[] = []
  for (const logged of events<UpdatesEvent>('updates'))
    if (!foldUpdates(updates, logged).counted) ignored.push(logged.event.type)
  for (const logged of events<WeightsEvent>('weights'))
    if (!foldWeights(weights, logged).counted) ignored.push(logged.event.type)
  const batches = updateLine(updates, 'policy').batches
  return {
    batches,
    versions: [...weightLine(weights, 'policy').versions.values()].map(({ version, parent }) => [version, parent]),
    ignored,
  }
}

feature(
  'of two trainers and two publishers one each works and the other takes over; without the group the chain is still one',
  { role: 'trainer', takes: 300 },
  'updates',
  async (bench) => {
    const { members, append, until, say } = bench
    const publishers = [
      members.start({ role: 'publisher', takes: 50 }),
      members.start({ role: 'publisher', takes: 50 }),
    ]
    const trainers = [members.start(), members.start()]
    await members.settled(publishers)
    await members.settled(trainers)
    // Two publishers without the group may both write a version. A failed update would be waited for in vain.
    const published = (): number => {
      for (const { event } of bench.events<UpdatesEvent>('updates'))
        if (event.type === 'UpdateFailed') throw new Error(`update ${event.number} failed: ${event.reason}`)
      return new Set(
        bench
          .events<WeightsEvent>('weights')
          .flatMap(({ event }) => (event.type === 'VersionPublished' ? [event.number] : [])),
      ).size
    }

    const before = new Map(publishers.map((one) => [one, one.did().length]))
    await append(turns(0, 6))
    await until(() => published() === 3)
    const active = trainers.filter((one) => one.did().length > 0)
    const publishing = publishers.filter((one) => one.did().length > before.get(one)!)
    assert.equal(active.length, 1, 'one trainer stands by')
    assert.equal(publishing.length, 1, 'one publisher stands by')
    assert.equal(done(trainers).length, 3)
    assert.deepEqual(chains(bench).ignored, [])

    const [first] = active as [MemberProcess]
    const second = trainers.find((one) => one !== first)!
    await append(turns(6, 8, 3))
    await members.until(() => first.did().length === 4)
    await first.kill()
    const killed = performance.now()
    await until(() => published() === 4)
    say(
      `trainer killed in a step: the other had published after ${Math.round(performance.now() - killed)} ms (session ${SESSION} ms)`,
    )
    assert.deepEqual([...second.did()], ['step'])
    assert.equal(chains(bench).batches.length, 4)

    const [publisher] = publishing as [MemberProcess]
    await publisher.kill()
    await append(turns(8, 10, 4))
    await until(() => published() === 5)

    const heedless = [
      members.start({ heedless: true }),
      members.start({ role: 'publisher', takes: 50, heedless: true }),
    ]
    const stepped = second.did().length
    for (let more = 10; heedless[0]!.did().length === 0 || second.did().length === stepped; more += 2) {
      await append(turns(more, more + 2, more / 2))
      await until(() => published() === more / 2 + 1)
    }
    const { batches, versions, ignored } = chains(bench)
    say(`heedless: ${versions.length} versions, ignored: ${ignored.join(', ')}`)
    assert.deepEqual(
      versions,
      range(batches.length + 1).map((version) => [version, version === 0 ? null : version - 1]),
    )
    assert.equal(
      new Set(batches.flatMap(({ sealed }) => sealed.items.map(({ turn }) => turn))).size,
      2 * batches.length,
    )
    for (const one of [second, ...heedless, ...publishers.filter((other) => other !== publisher)]) await one.end()
  },
)
