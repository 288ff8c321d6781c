/** Several scorers: the turns that each leaves to the others and takes over from them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, type Event } from '@instar/events'
import { openMemoryLog, type EventLog } from '@instar/log'
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
  stillOurs,
  type Judge,
  type Judged,
  type JudgeRequest,
  type Output,
  type Rules,
} from './app.ts'
import { captured, feedback, logged, type Said } from '../../../test/kit/scored-history.ts'

const RULES: Rules = { idleMs: 1000, judgesNeedNextState: true, staleness: null }
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
  const shared: EventLog = {
    append: (records) => log.append(records),
    subscribe: (options) => log.subscribe(options),
    read: (topic, options) => log.read(topic, options),
    at: (position) => log.at(position),
    ends: (topics) => log.ends(topics),
    partitions: (topic) => log.partitions(topic),
    close: () => log.close(),
    async joinGroup(_group, _topic, onChange) {
      changed = onChange
      return {
        owns: (partition) => owned.has(partition),
        async leave() {
          owned = new Set()
        },
      }
    },
  }
  return {
    log: shared,
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
