/** Decisions of the scorer's core on constructed histories. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRecord, encodeEvent, readWritten, RELEASED, type Event, type SessionClosed } from '@instar/events'
import {
  closeIdle,
  decide,
  evolve,
  forgetWork,
  initialState,
  judged,
  scoreOf,
  type Judged,
  type JudgeRequest,
  type Output,
  type Rules,
  type ScorerState,
} from '../app.ts'
import { captured, feedback, logged, turnNamed, type Said } from '../../../../test/kit/scored-history.ts'

const RULES: Rules = { idleMs: 1000, judgesNeedNextState: true, staleness: null, waiting: null }
const GOOD: Judged = {
  verdicts: [{ judge: 'j', value: 1, note: '' }],
  reward: 1,
  judge: 'j',
  hint: null,
  hintJudge: null,
  reason: null,
}
const BAD: Judged = { ...GOOD, reward: -1, hint: 'Answer in plain text.', hintJudge: 'j' }
const NOTHING: Judged = {
  verdicts: [{ judge: 'j', value: null, note: 'off' }],
  reward: null,
  judge: null,
  hint: null,
  hintJudge: null,
  reason: 'judge_failed',
}

const user = (content: string): Said => ({ role: 'user', content })
const model = (content: string): Said => ({ role: 'assistant', content })
const first = captured({ session: 's', messages: [user('hi')], answer: 'A', at: 10, name: 't1' })
const second = captured({
  session: 's',
  messages: [user('hi'), model('A'), user('thanks')],
  answer: 'B',
  at: 20,
  name: 't2',
})

class Scene {
  readonly state: ScorerState = initialState()
  offset = 0
  read(...events: Event[]): void {
    for (const event of events) evolve(this.state, logged(event, this.offset++))
  }
  decide(rules: Rules = RULES): Output[] {
    return decide(this.state, rules, 100)
  }
  request(rules: Rules = RULES): JudgeRequest {
    const outputs = this.decide(rules).filter((one) => one.do === 'judge' || one.event.type !== 'EpisodeBegun')
    const [output, ...more] = outputs
    assert.equal(more.length, 0)
    assert.ok(output?.do === 'judge')
    return output
  }
  /** Judges, appends, reads back. */
  score(result: Judged): Event {
    const output = judged(this.state, this.request(), result, 100)
    assert.ok(output?.do === 'append')
    this.read(output.event)
    return output.event
  }
}

test('a turn is judged once, when its next state is there', () => {
  const scene = new Scene()
  scene.read(first)
  assert.deepEqual(scene.decide(), [])
  scene.read(second)
  const request = scene.request()
  assert.deepEqual(request, {
    do: 'judge',
    ask: 1,
    turn: first.turn,
    next: second.turn,
    shown: null,
    feedback: null,
    cause: second.turn,
    discarded: false,
  })
  assert.deepEqual(scene.decide(), [], 'the judges have been asked')
  const output = judged(scene.state, request, GOOD, 100)
  assert.ok(output?.do === 'append' && output.event.type === 'TurnScored' && output.event.reward === 1)
  assert.equal(scoreOf(scene.state, first.turn), undefined, 'it counts when it is read back')
  assert.deepEqual(scene.decide(), [], 'one unread append per turn')
  scene.read(output.event)
  assert.equal(scoreOf(scene.state, first.turn)?.reward, 1)
  assert.deepEqual(scene.decide(), [])
})

test('the score is found in either order of scores and turns', () => {
  const author = new Scene()
  author.read(first, second)
  const score = author.score(GOOD)
  const late = new Scene()
  late.read(score, first, second)
  assert.deepEqual(late.decide(), [])
  const early = new Scene()
  early.read(first, second, score)
  assert.deepEqual(early.decide(), [])
})

test('a scorer that loses a race drops its own verdict', () => {
  const [a, b] = [new Scene(), new Scene()]
  for (const scene of [a, b]) scene.read(first, second)
  const mine = judged(a.state, a.request(), GOOD, 100)
  const theirs = judged(b.state, b.request(), BAD, 101)
  assert.ok(mine?.do === 'append' && theirs?.do === 'append')
  for (const scene of [a, b]) scene.read(mine.event, theirs.event)
  for (const scene of [a, b]) {
    assert.equal(scoreOf(scene.state, first.turn)?.reward, 1)
    assert.deepEqual(scene.decide(), [])
    assert.equal(scene.state.work.size, 0)
  }
})

test('a failed judge gives a skip with its reason, never a zero', () => {
  const scene = new Scene()
  scene.read(first, second)
  const event = scene.score(NOTHING)
  assert.ok(event.type === 'TurnSkipped')
  assert.equal(event.reason, 'judge_failed')
  assert.equal(event.verdicts[0]?.note, 'off')
  assert.equal(scoreOf(scene.state, first.turn)?.reward, null)
  assert.deepEqual(scene.decide(), [])
})

test('explicit feedback revises a score, and the latest one counts', () => {
  const scene = new Scene()
  scene.read(first, second)
  scene.score(BAD)
  scene.read(feedback('s', first.turn, 1, 50))
  const revised = scene.score(GOOD)
  assert.ok(revised.type === 'ScoreRevised')
  assert.deepEqual(revised.rank, { at: 50, id: 'f50' })
  scene.read(feedback('s', first.turn, -1, 40))
  assert.deepEqual(scene.decide(), [])
  scene.read(feedback('s', first.turn, -1, 60))
  const again = scene.score({ ...BAD, hint: null, hintJudge: null })
  assert.ok(again.type === 'ScoreRevised' && again.rank?.at === 60)
  assert.equal(scoreOf(scene.state, first.turn)?.revision, 2)
})

test('a lower revision keeps the current hint', () => {
  const scene = new Scene()
  scene.read(first, second)
  scene.score(BAD)
  scene.read(feedback('s', first.turn, -1, 60))
  const event = scene.score({ ...BAD, judge: 'feedback', hint: null, hintJudge: null })
  assert.ok(event.type === 'ScoreRevised')
  assert.equal(new TextDecoder().decode(event.hint?.bytes), 'Answer in plain text.')
  assert.equal(event.hintJudge, 'j')
})

test('feedback does not wait for running judges and precedes them', () => {
  const scene = new Scene()
  scene.read(first, second)
  const slow = scene.request()
  scene.read(feedback('s', first.turn, -1, 60, 'f', 'too terse'))
  const quick = scene.request()
  assert.equal(quick.feedback?.comment, 'too terse')
  assert.equal(judged(scene.state, slow, GOOD, 100), null)
  const output = judged(scene.state, quick, BAD, 100)
  assert.ok(output?.do === 'append' && output.event.type === 'TurnScored' && output.event.rank?.id === 'f')
})

test('side turns, aborted turns and untrainable turns are not judged, but feedback on them is recorded', () => {
  for (const odd of [{ kind: 'side' as const }, { trainable: false, reason: 'off_prefix' }]) {
    const scene = new Scene()
    scene.read({ ...first, ...odd }, second)
    assert.deepEqual(scene.decide(), [])
    scene.read(feedback('s', first.turn, 1, 60))
    assert.equal(scene.request().feedback?.value, 1)
  }
  const scene = new Scene()
  const { finish: _finish, ...facts } = first
  scene.read({ ...facts, type: 'TurnAborted', why: 'client_gone' }, second)
  assert.deepEqual(scene.decide(), [])
})

test('an idle session is closed with its open turns, and each is skipped when the record is read back', () => {
  const scene = new Scene()
  scene.read(first, second)
  scene.score(GOOD)
  assert.deepEqual(closeIdle(scene.state, RULES, 1019), { outputs: [], lookAt: 1020 })
  const { outputs } = closeIdle(scene.state, RULES, 1020)
  const [closing] = outputs
  assert.ok(outputs.length === 1 && closing?.do === 'append' && closing.event.type === 'SessionClosed')
  assert.deepEqual(closing.event.open, [second.turn])
  assert.deepEqual(closeIdle(scene.state, RULES, 1021).outputs, [], 'one unread closing per session')
  assert.deepEqual(scene.decide(), [])
  scene.read(closing.event)
  const [skip] = scene.decide()
  assert.ok(skip?.do === 'append' && skip.event.type === 'TurnSkipped' && skip.event.reason === 'no_next_state')
  scene.read(skip.event)
  assert.deepEqual(scene.decide(), [])
  assert.deepEqual(closeIdle(scene.state, RULES, 9000).outputs, [])
})

test('a judge of answers alone judges a closed turn', () => {
  const scene = new Scene()
  scene.read(first, { type: 'SessionClosed', session: 's', open: [first.turn], why: 'client', at: 30 })
  const request = scene.request({ ...RULES, judgesNeedNextState: false, staleness: null })
  assert.equal(request.next, null)
})

test('of several candidates the continued one gets the next state, and the others are skipped at the close', () => {
  const group = { group: 'g', candidates: 2 }
  const one = captured({
    session: 's',
    messages: [user('hi')],
    answer: 'A1',
    at: 10,
    name: 'c1',
    ...group,
    candidate: 0,
  })
  const two = captured({
    session: 's',
    messages: [user('hi')],
    answer: 'A2',
    at: 10,
    name: 'c2',
    ...group,
    candidate: 1,
  })
  const next = captured({ session: 's', messages: [user('hi'), model('A2'), user('thanks')], answer: 'B', at: 20 })
  const scene = new Scene()
  scene.read(one, two, next)
  assert.equal(scene.request().turn, two.turn)
  scene.read({ type: 'SessionClosed', session: 's', open: [one.turn], why: 'idle', at: 30 })
  const skips = scene.decide()
  assert.equal(skips.length, 1)
  assert.ok(skips[0]?.do === 'append' && skips[0].event.type === 'TurnSkipped' && skips[0].event.turn === one.turn)
})

test('candidates that were not shown are judged by the next state of the shown one, in either order', () => {
  const shown = { ...first, candidates: 3 }
  const beside = (name: string, candidate: number): Event => ({
    ...captured({
      session: 's',
      messages: [user('hi')],
      answer: `other ${name}`,
      at: 15,
      name,
      group: shown.group,
      candidate,
      candidates: 3,
    }),
    type: 'TurnSampled',
  })
  const alone: Rules = { ...RULES, judgesNeedNextState: false, staleness: null }
  const scene = new Scene()
  scene.read(shown, beside('x', 1))
  assert.deepEqual(scene.decide(alone), [])
  scene.read(second)
  const asked = (outputs: Output[]) =>
    outputs.flatMap((output) => (output.do === 'judge' ? [[output.turn, output.next, output.shown, output.cause]] : []))
  assert.deepEqual(asked(scene.decide(alone)), [
    [shown.turn, second.turn, null, second.turn],
    [turnNamed('s', 'x'), second.turn, shown.turn, second.turn],
  ])
  scene.read(beside('y', 2))
  assert.deepEqual(asked(scene.decide(alone)), [[turnNamed('s', 'y'), second.turn, shown.turn, second.turn]])

  const closed = new Scene()
  closed.read(shown, beside('x', 1), { type: 'SessionClosed', session: 's', open: [shown.turn], why: 'client', at: 30 })
  assert.deepEqual(
    asked(closed.decide(alone)).map(([turn, next, to]) => [turn, next, to]),
    [
      [shown.turn, null, null],
      [turnNamed('s', 'x'), null, shown.turn],
    ],
  )

  const without = new Scene()
  without.read(shown, second, beside('x', 1))
  assert.deepEqual(
    without
      .decide()
      .map((output) =>
        output.do === 'append' && output.event.type === 'TurnSkipped'
          ? [output.event.turn, output.event.reason]
          : output.do,
      ),
    ['judge', [turnNamed('s', 'x'), 'no_next_state']],
    'rules that read the next message say nothing of what was not shown',
  )
})

test('a retry of the same request is not its next state', () => {
  const scene = new Scene()
  scene.read(first, { ...first, turn: turnNamed('s', 'retry'), group: 'retry', at: 15, finishedAt: 15 })
  assert.deepEqual(scene.decide(), [])
})

test('scores of a branch do not change its trunk', () => {
  const scene = new Scene()
  scene.read(first, second)
  const output = judged(scene.state, scene.request(), GOOD, 100)
  assert.ok(output?.do === 'append' && output.event.type === 'TurnScored')
  scene.read({ ...output.event, policy: 'policy~again', reward: -1 })
  assert.equal(scoreOf(scene.state, first.turn), undefined)
  scene.read(output.event)
  assert.equal(scoreOf(scene.state, first.turn)?.reward, 1)
})

test('turns that wait for a judge are not examined again by other events', () => {
  const WAITING = 10_000
  let looks = 0
  const scene = new Scene()
  for (let i = 0; i < WAITING; i += 1) {
    const session = `w${i}`
    scene.read(
      captured({ session, messages: [user('hi')], answer: 'A', at: 10 }),
      captured({ session, messages: [user('hi'), model('A'), user('thanks')], answer: 'B', at: 20 }),
    )
  }
  const requests: Output[] = []
  for (let more = scene.decide(); more.length > 0; more = scene.decide()) requests.push(...more)
  assert.equal(requests.length, WAITING)
  const { turns } = scene.state.turns
  const get = turns.get.bind(turns)
  turns.get = (id) => {
    looks += 1
    return get(id)
  }
  assert.deepEqual(scene.decide(), [])
  assert.equal(looks, 0, 'nothing has happened')
  scene.read(first, second)
  looks = 0
  assert.equal(scene.decide().length, 1)
  assert.ok(looks <= 2, `${looks} turns were looked at for one`)
  const [slow] = requests
  assert.ok(slow?.do === 'judge')
  scene.read(feedback(slow.turn.slice(0, slow.turn.lastIndexOf('.')), slow.turn, -1, 60))
  const [quick, ...more] = scene.decide()
  assert.ok(
    quick?.do === 'judge' && quick.turn === slow.turn && more.length === 0,
    'one that waits is looked at when something is said of it',
  )
})

test('judgements that were requested before a restart are requested again', () => {
  const scene = new Scene()
  scene.read(first, second)
  const before = scene.request()
  forgetWork(scene.state)
  const again = scene.request()
  assert.deepEqual([again.turn, again.cause], [before.turn, before.cause])
  assert.equal(judged(scene.state, before, GOOD, 100), null)
})

test('turns of a discarded session are skipped with that reason', () => {
  const scene = new Scene()
  scene.read(first, second)
  assert.equal(scene.decide().length, 1, 'a judge is asked')
  scene.read({ type: 'SessionClosed', session: 's', open: [second.turn], why: 'client', at: 30, discarded: true })
  const skips = scene
    .decide()
    .map((output) =>
      output.do === 'append' && output.event.type === 'TurnSkipped'
        ? [output.event.turn, output.event.reason]
        : output.do,
    )
  assert.deepEqual(
    new Map(skips as [string, string][]),
    new Map([
      [first.turn, 'discarded'],
      [second.turn, 'discarded'],
    ]),
  )
})

for (const abortsFirst of [false, true])
  test(`a turn that was skipped before its episode was aborted is skipped once more, as discarded, where an outcome covers it${abortsFirst ? ', also one that comes after the abort' : ''}`, () => {
    const scene = new Scene()
    const closing = (more: Partial<SessionClosed>): SessionClosed => ({
      type: 'SessionClosed',
      session: 's',
      open: [],
      why: 'client',
      at: 30,
      ...more,
    })
    const open = [second.turn]
    const skipsOf = (): unknown[] =>
      scene.decide().flatMap((output) => {
        if (output.do !== 'append' || output.event.type !== 'TurnSkipped') return []
        scene.read(output.event)
        const { turn, reason, rank, of } = output.event
        return [[turn, reason, rank?.at ?? null, of?.unusable ?? null]]
      })
    scene.read(first, second)
    scene.score(NOTHING)
    if (abortsFirst) {
      scene.read(closing({ open, discarded: true }))
      assert.deepEqual(skipsOf(), [[second.turn, 'discarded', null, 'discarded']])
      scene.read(closing({ outcome: 1 }))
      assert.deepEqual(skipsOf(), [[first.turn, 'discarded', 8.64e15, 'discarded']])
    } else {
      scene.read(closing({ open, outcome: 1 }))
      assert.deepEqual(skipsOf(), [[second.turn, 'no_next_state', null, null]])
      scene.read(closing({ discarded: true }))
      assert.deepEqual(skipsOf(), [
        [first.turn, 'discarded', 8.64e15, 'discarded'],
        [second.turn, 'discarded', 8.64e15, 'discarded'],
      ])
    }
    assert.deepEqual(skipsOf(), [])
    assert.deepEqual([...scene.state.needed], [])
  })

test('the end of an aborted episode follows the skips of its turns: in between, one with a score would be trained on', () => {
  const scene = new Scene()
  scene.read({ ...first, task: 'sums' }, { ...second, task: 'sums' })
  const score = judged(scene.state, scene.request(), GOOD, 100)
  assert.ok(score?.do === 'append')
  scene.read({ type: 'SessionClosed', session: 's', open: [second.turn], why: 'client', at: 30, discarded: true })
  const next = (): Event[] => scene.decide().flatMap((output) => (output.do === 'append' ? [output.event] : []))
  const saysOf = (events: readonly Event[]): unknown[] =>
    events.map((event) => (event.type === 'TurnSkipped' ? [event.turn, event.reason] : event.type))
  const skip = next()
  assert.deepEqual(saysOf(skip), [[second.turn, 'discarded']], 'the score of the first turn is on its way')
  scene.read(...skip)
  assert.deepEqual(next(), [])
  scene.read(score.event)
  const last = next()
  assert.deepEqual(saysOf(last), [[first.turn, 'discarded']])
  scene.read(...last)
  const end = next()
  assert.deepEqual(saysOf(end), ['EpisodeEnded'])
  scene.read(...end)
  assert.deepEqual([next(), scene.state.ending.sessions.size], [[], 0])
})

test('a hint with a negation is kept only on a line whose base obeys negations', () => {
  const forbids: Judged = { ...BAD, hint: 'Answer without a list.' }
  const hintOn = (settings: Record<string, number> | null, result = forbids): unknown => {
    const scene = new Scene()
    if (settings)
      scene.read({
        type: 'LineStarted',
        prev: '',
        policy: 'policy',
        base: { name: 'tiny', sha256: 'ab' },
        mode: 'live',
        settings,
        parent: null,
        at: 1,
      })
    scene.read(first, second)
    const event = scene.score(result)
    assert.ok(event.type === 'TurnScored')
    return event.hint === null ? null : [readWritten(event.hint), event.hintJudge]
  }
  assert.equal(hintOn(null), null)
  assert.equal(hintOn({}), null, 'a line that did not measure it')
  assert.equal(hintOn({ negation_without: 5, negation_with: 0 }), null, 'too few answers')
  assert.equal(hintOn({ negation_without: 10, negation_with: 6 }), null)
  assert.deepEqual(hintOn({ negation_without: 10, negation_with: 5 }), ['Answer without a list.', 'j'])
  assert.deepEqual(hintOn({ negation_without: 10, negation_with: 6 }, BAD), ['Answer in plain text.', 'j'])
})

test('a score says what a batch needs of its turn; readers of an earlier build get none of it', () => {
  const scene = new Scene()
  const task = captured({ session: 'e', messages: [user('hi')], answer: 'A', at: 10, name: 't1' })
  const next = captured({
    session: 'e',
    messages: [user('hi'), model('A'), user('ok')],
    answer: 'B',
    at: 20,
    name: 't2',
  })
  scene.read({ ...task, task: 'sums', key: 'k1' }, { ...next, task: 'sums', key: 'k1' })
  const first = scene.state.turns.turns.get(task.turn)!
  const of = {
    record: first.record,
    group: task.group,
    candidates: 1,
    shown: true,
    key: 'k1',
    task: 'sums',
    unusable: null,
    begunAt: 10,
    at: 10,
    finishedAt: task.finishedAt,
    earlier: [4, 7],
  }
  const score = scene.score({ ...GOOD, earlier: [4, 7] })
  assert.deepEqual('of' in score && score.of, of)
  scene.read({ type: 'SessionClosed', session: 'e', open: [next.turn], why: 'client', discarded: true, at: 30 })
  const output = scene
    .decide()
    .find((one) => one.do === 'append' && 'turn' in one.event && one.event.turn === next.turn)
  assert.ok(output?.do === 'append' && output.event.type === 'TurnSkipped')
  assert.deepEqual([output.event.of?.unusable, output.event.of?.begunAt, output.event.of?.at], ['discarded', 10, 20])
  const place = { partition: 0, offset: 0 }
  const read = (versions?: typeof RELEASED) => {
    const record = encodeEvent(score, versions)
    const { event } = decodeRecord({ ...record, ...place })
    return [record.schema, 'of' in event && JSON.stringify(event.of)]
  }
  assert.deepEqual(read(), ['TurnScored.v2', JSON.stringify(of)])
  assert.deepEqual(read(RELEASED), ['TurnScored.v1', 'null'])
})

test('an abort skips a turn that has a score, once, whatever feedback there was or comes', () => {
  const scene = new Scene()
  scene.read(first, second, feedback('s', first.turn, 1, 25))
  scene.score({ ...GOOD, judge: 'feedback' })
  const aborted: Event = { type: 'SessionClosed', session: 's', open: [], why: 'client', discarded: true, at: 30 }
  scene.read(aborted)
  const outputs = scene.decide()
  assert.deepEqual(
    outputs.map((output) => output.do === 'append' && [output.event.type, 'turn' in output.event && output.event.turn]),
    [
      ['TurnSkipped', first.turn],
      ['TurnSkipped', second.turn],
    ],
  )
  for (const output of outputs) if (output.do === 'append') scene.read(output.event)
  const { reward, reason, rank } = scoreOf(scene.state, first.turn)!
  assert.deepEqual([reward, reason, rank?.at], [null, 'discarded', 8.64e15])
  scene.read(feedback('s', first.turn, -1, 40))
  assert.deepEqual(scene.decide(), [])
  // Of a scorer that had not read the abort.
  scene.read({ ...(outputs[0]!.do === 'append' ? outputs[0]!.event : aborted), ...lateScore } as Event)
  assert.equal(scoreOf(scene.state, first.turn)?.reward, null)
  assert.deepEqual([...scene.state.needed], [])
})
const lateScore = {
  type: 'ScoreRevised',
  reward: 1,
  judge: 'feedback',
  hint: null,
  hintJudge: null,
  rank: { at: 40, id: 'f40' },
} as const
