/** A judge that is slower than the traffic: which turns it judges, which it never does, and what is kept meanwhile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { weightLine, type Event } from '@instar/events'
import {
  closeIdle,
  decide,
  evolve,
  forgetWork,
  initialState,
  reactionsJudge,
  type Output,
  type Rules,
  type ScorerState,
} from '../app.ts'
import { MOST_TOUCHED } from './state.ts'
import { MOST_CLOSED } from '@instar/events/folds/turns'
import { captured, logged, type Said } from '../../../../test/kit/scored-history.ts'
import { Rig, thanked, versions } from '../../../../test/kit/slow-judge.ts'

const RULES: Rules = { idleMs: 1000, judgesNeedNextState: true, staleness: null, waiting: null }
const user = (content: string): Said => ({ role: 'user', content })

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

test('the newest turn is judged first, and beyond the limit the oldest are skipped as overloaded', async () => {
  const rig = new Rig()
  await rig.say(...range(0, 40).flatMap((n) => thanked(n)))
  await rig.start()
  await rig.scored(35)
  await rig.judge.until(1)
  assert.deepEqual(rig.judge.asked, [39])
  assert.deepEqual(rig.skipped('overloaded'), range(0, 35))
  assert.equal(await rig.scorer?.settled(), false)
  assert.equal(await rig.gauge('instar_scorer_waiting'), 4)
  assert.equal(await rig.gauge('instar_turns_unscored'), 5)
  assert.equal(await rig.gauge('instar_turns_skipped_total{reason="overloaded"}'), 35)
  await rig.say(...thanked(50), ...thanked(51))
  await rig.scored(36)
  for (let count = 2; count <= 6; count += 1) {
    rig.judge.answer()
    await rig.judge.until(count)
  }
  rig.judge.answer()
  await rig.scored(42)
  assert.deepEqual(rig.judge.asked, [39, 51, 50, 38, 37, 36])
  assert.deepEqual(rig.skipped('overloaded'), range(0, 36))
  assert.equal(await rig.scorer?.settled(), true)
  await rig.scorer?.stop()
})

test('turns that are too stale for a batch are not given to a slow judge; turns of other lines are', async () => {
  const rig = new Rig()
  await rig.say(
    ...versions(6),
    ...[0, 1, 2, -1].flatMap((version, n) => thanked(n, version)),
    ...thanked(4, 0, 'other'),
  )
  await rig.start()
  for (let count = 1; count <= 3; count += 1) {
    await rig.judge.until(count)
    rig.judge.answer()
  }
  await rig.scored(5)
  assert.deepEqual(rig.judge.asked, [4, 3, 2])
  assert.deepEqual(rig.skipped('stale'), [0, 1])
  assert.equal(weightLine(rig.scorer!.state.weights, 'policy').head, 6)
  await rig.scorer?.stop()
})

test('the reactions judge, which is fast, judges all waiting turns of any age', async () => {
  const rig = new Rig()
  const count = 3000
  await rig.say(...versions(6), ...range(0, count).flatMap((n) => thanked(n)))
  await rig.start([reactionsJudge({ movedOn: null })])
  await rig.scored(count)
  assert.deepEqual(new Set(rig.scores.map(({ type }) => type)), new Set(['TurnScored']))
  await rig.scorer?.stop()
})

class Scene {
  readonly state: ScorerState = initialState()
  offset = 0
  read(...events: Event[]): void {
    for (const event of events) evolve(this.state, logged(event, this.offset++))
  }
  /** All outputs of decisions, `most` at a time. */
  all(most = Infinity): Output[] {
    const outputs: Output[] = []
    for (let idle = 0; idle < 3;) {
      const more = decide(this.state, RULES, 100, () => true, most)
      assert.ok(more.length <= most)
      outputs.push(...more)
      idle = more.length === 0 ? idle + 1 : 0
    }
    return outputs
  }
}

test('touched turns are kept up to a limit, and beyond it and after a restart open turns are found again, once', () => {
  const scene = new Scene()
  const count = 2 * MOST_TOUCHED + 100
  for (let n = 0; n < count; n += 1) {
    scene.read(...thanked(n))
    assert.ok(scene.state.touched.size <= MOST_TOUCHED)
  }
  const turns = (outputs: readonly Output[]): number =>
    new Set(outputs.flatMap((output) => (output.do === 'judge' ? [output.turn] : []))).size
  const first = scene.all(500)
  assert.deepEqual([turns(first), first.length], [count, count])
  forgetWork(scene.state)
  assert.equal(scene.state.touched.size, 0)
  const again = scene.all(500)
  assert.deepEqual([turns(again), again.length], [count, count])
})

test('a session with more open turns than fit in a record is closed by several records within the limit', () => {
  const scene = new Scene()
  const open = 2 * MOST_CLOSED + 5
  for (let n = 0; n < open; n += 1) {
    scene.read(captured({ session: 'long', messages: [user(`question ${n}`)], answer: `a${n}`, at: n }))
  }
  const { outputs } = closeIdle(scene.state, RULES, 1e6)
  const closed = outputs.map((output) => {
    assert.ok(output.do === 'append' && output.event.type === 'SessionClosed')
    return output.event
  })
  assert.deepEqual(
    closed.map((event) => event.open.length),
    [MOST_CLOSED, MOST_CLOSED, 5],
  )
  assert.deepEqual(closeIdle(scene.state, RULES, 1e6).outputs, [], 'they are on their way')
  scene.read(...closed)
  assert.deepEqual([scene.state.closing.size, [...scene.state.idle.watched].length], [0, 0])
  assert.equal(scene.all().length, open, 'each turn is skipped')
})

test('sessions are closed up to the limit in one decision, and the rest in the next', () => {
  const scene = new Scene()
  for (let n = 0; n < 50; n += 1) scene.read(captured({ session: `q${n}`, messages: [user('hi')], answer: 'A', at: n }))
  const first = closeIdle(scene.state, RULES, 1e6, () => true, 20)
  assert.deepEqual([first.outputs.length, first.lookAt <= 1e6], [20, true])
  assert.deepEqual(closeIdle(scene.state, RULES, 1e6, () => true, 100).outputs.length, 30)
})

test(
  'turns beyond the limit of running work are scored after it, also when their records were read back before',
  { timeout: 20_000 },
  async () => {
    const COUNT = 1500
    const rig = new Rig()
    for (let n = 0; n < COUNT; n += 1) {
      const [turn] = thanked(n)
      const closed: Event = { type: 'SessionClosed', session: `s${n}`, open: [turn!.turn], why: 'idle', at: 5 }
      await rig.say(turn!, closed)
    }
    const append = rig.log.append.bind(rig.log)
    const durable = Promise.withResolvers<void>()
    rig.log.append = async (records) => {
      const written = await append(records)
      await durable.promise
      return written
    }
    await rig.start([reactionsJudge({ movedOn: null })])
    await rig.scored(1024)
    while (rig.scorer!.work().needed > COUNT - 1024) await setImmediate()
    durable.resolve()
    await rig.scored(COUNT)
    assert.equal(rig.skipped('no_next_state').length, COUNT)
    await rig.scorer!.stop()
  },
)
