/** How much one person's rewards count on a question that nobody else asks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { subjectOfSession, type ScoreRevised, type TurnScored, type TurnSkipped } from '@instar/events'
import { captured, logged, type Said } from '../../../../test/kit/scored-history.ts'
import { decide, evolve, initialState, judged, judgeTurn, reactionsJudge, type ScorerState } from '../app.ts'
import {
  ALONE_MS,
  askedIn,
  askedOf,
  askedVerdict,
  asShown,
  askerOf,
  foldAsked,
  MOST_ASKED,
  MOST_SCORES,
  type AskedTable,
} from './asked-alone.ts'

const RULES = { idleMs: 1000, judgesNeedNextState: true, staleness: null, waiting: null }
const reactions = reactionsJudge({ movedOn: null })
const SUM = 'What is 7 plus 6?'

type Score = TurnScored | TurnSkipped | ScoreRevised
type Options = { request?: string; words?: string; key?: string | null; before?: string; now?: number; read?: boolean }

class Line {
  readonly state: ScorerState = initialState()
  readonly #most: number
  #offset = 0
  #session = 0
  constructor(most = 2) {
    this.#most = most
  }
  read(event: Parameters<typeof logged>[0]): void {
    evolve(this.state, logged(event, this.#offset++))
  }
  async say(subject: string | null, how: Options = {}): Promise<Score> {
    const { request = SUM, words = 'No, that is wrong.', key = null, before, now = 100, read = true } = how
    const session = `s${this.#session++}`
    const answer = `Answer ${this.#session}.`
    const first: Said[] = before === undefined ? [] : [{ role: 'user', content: before }]
    const messages: Said[] = [...first, { role: 'user', content: request }]
    const later: Said[] = [...messages, { role: 'assistant', content: answer }, { role: 'user', content: words }]
    const asker = { subject: subject ?? subjectOfSession(session), key }
    const turn = { ...captured({ session, messages, answer, at: 10, subject: asker.subject }), key }
    this.read(turn)
    this.read({ ...captured({ session, messages: later, answer: 'Noted.', at: 20, subject: asker.subject }), key })
    const need = decide(this.state, RULES, now).find((one) => one.do === 'judge' && one.turn === turn.turn)
    assert.ok(need?.do === 'judge')
    const evidence = {
      turn: turn.turn,
      request,
      answer,
      calls: false,
      next: { user: words, tools: '' },
      ...(before === undefined
        ? {}
        : { before: { system: 'x', tools: [], messages: [{ role: 'user', text: before }] } }),
    }
    const opinion = await judgeTurn([reactions], need, evidence, new AbortController().signal)
    const output = judged(this.state, need, opinion, now, { duplicates: 64, askedAlone: this.#most })
    assert.ok(output?.do === 'append' && 'verdicts' in output.event)
    if (read) this.read(output.event)
    return output.event
  }
  async rewards(subjects: readonly (string | null)[], how: Options = {}): Promise<(number | string)[]> {
    const rewards = []
    for (const subject of subjects) rewards.push(rewardOf(await this.say(subject, how)))
    return rewards
  }
}
const rewardOf = (event: Score): number | string => (event.type === 'TurnSkipped' ? event.reason : event.reward)
const other = { request: 'What is the capital of France?', words: 'Thanks, perfect!' }

test('two scores of one person on a question that nobody else asks count, whatever the sign and the spelling', async () => {
  const line = new Line()
  await line.say('b', other)
  assert.deepEqual(await line.rewards(['a', 'a'], { request: 'what is  7 plus 6' }), [-1, -1])
  assert.deepEqual(await line.rewards(['a']), ['asked_alone'])
  assert.deepEqual(await line.rewards(['a'], { words: 'Thanks, perfect!' }), ['asked_alone'])
  assert.deepEqual(await line.rewards(['a'], { request: 'What is 7 plus 8?' }), [-1])
  assert.deepEqual(await line.rewards(['a'], { before: 'Hello.' }), [-1])
  assert.deepEqual(await line.rewards(['a'], { now: 100 + ALONE_MS }), [-1])
})

test('without the limit every one of sixteen counts', async () => {
  const line = new Line(64)
  await line.say('b', other)
  assert.deepEqual(await line.rewards(Array.from({ length: 16 }, () => 'a')), Array(16).fill(-1))
})

test('a person counts as often as all others who ask the same, and twice more', async () => {
  const line = new Line()
  assert.deepEqual(await line.rewards(['b', 'c', 'a', 'a', 'a', 'a', 'a']), [-1, -1, -1, -1, -1, -1, 'asked_alone'])
  assert.deepEqual(await line.rewards(['b', 'a', 'a']), [-1, -1, 'asked_alone'])
})

test('a line that one person uses has no limit; nor have the people of its only key for that key', async () => {
  const alone = new Line()
  assert.deepEqual(await alone.rewards(Array.from({ length: 8 }, () => 'a')), Array(8).fill(-1))
  const key = new Line()
  const people = Array.from({ length: 8 }, (_, i) => `person ${i}`)
  assert.deepEqual(await key.rewards(people, { key: 'k1' }), Array(8).fill(-1))
  assert.deepEqual(await key.rewards(['person 0', 'person 0'], { key: 'k1', request: 'x?' }), [-1, -1])
})

test('a key is limited as a subject is, whatever subjects it names; all without a name are one', async () => {
  const line = new Line()
  await line.say('b', { ...other, key: 'k2' })
  assert.deepEqual(await line.rewards(['a1', 'a2', 'a3'], { key: 'k1' }), [-1, -1, 'asked_alone'])
  const unnamed = new Line()
  await unnamed.say('b', other)
  assert.deepEqual(await unnamed.rewards([null, null, null]), [-1, -1, 'asked_alone'])
})

test('scores that were appended and not read back count', async () => {
  const line = new Line()
  await line.say('b', other)
  assert.deepEqual(await line.rewards(['a', 'a', 'a'], { read: false }), [-1, -1, 'asked_alone'])
})

test('each step of an agent is a question of its own; the system text is no part of one', () => {
  const step = (text: string) => ({
    request: 'Fix the tests.',
    before: { system: 's', tools: [], messages: [{ role: 'tool', text }] },
  })
  assert.notEqual(askedOf(step('1 failed')), askedOf(step('2 failed')))
  assert.equal(askedOf({ request: SUM }), askedOf({ request: SUM, before: { system: 's', tools: [], messages: [] } }))
})

test('at the limit the oldest quarter of the questions is forgotten, and of one question the oldest scores', () => {
  const state = { questions: new Map() as unknown as AskedTable, askers: new Map() }
  const asker = askerOf({ subject: 'a', session: 's', key: 'k' })
  const fold = (i: number, offset: number, policy = 'policy'): void =>
    foldAsked(state, { policy, verdicts: [askedVerdict(askedOf({ request: `${i}` }), asker)], at: offset }, offset)
  for (let i = 0; i < MOST_ASKED; i += 1) fold(i, i)
  fold(0, MOST_ASKED)
  fold(0, 0, 'branch')
  assert.equal(state.questions.size, MOST_ASKED + 1)
  fold(MOST_ASKED, MOST_ASKED + 1)
  assert.equal(state.questions.size, MOST_ASKED + 2 - MOST_ASKED / 4)
  assert.equal(state.questions.get(`policy ${askedOf({ request: '0' })}`)?.scores.length, 2)
  assert.equal(state.questions.get(`policy ${askedOf({ request: '1' })}`), undefined)
  for (let i = 0; i < 2 * MOST_SCORES; i += 1) fold(7000, i)
  assert.equal(state.questions.get(`policy ${askedOf({ request: '7000' })}`)?.scores.length, MOST_SCORES)
  assert.deepEqual(state.askers.get('policy')?.subject.length, 1)
})

test('the table is not walked over for each question, however many policies it holds', () => {
  let walks = 0
  class Counted extends Map<string, { at: number; scores: never[] }> {
    override [Symbol.iterator]() {
      walks += 1
      return super[Symbol.iterator]()
    }
  }
  const state = { questions: new Counted() as unknown as AskedTable, askers: new Map() }
  const asker = askerOf({ subject: 'a', session: 's', key: null })
  for (let i = 0; i < MOST_ASKED; i += 1)
    for (const policy of ['policy', 'branch'])
      foldAsked(state, { policy, verdicts: [askedVerdict(askedOf({ request: `${i}` }), asker)], at: i }, i)
  assert.equal(state.questions.size, 2 * MOST_ASKED)
  assert.equal(walks, 1)
})

test('the stored form of the verdict is fixed', () => {
  const asked = { question: '0123456789abcdef', subject: 'aaaaaaaaaaaaaaaa', key: 'bbbbbbbbbbbbbbbb' }
  const verdict = askedVerdict(asked.question, asked)
  assert.equal(verdict.note, '0123456789abcdef by aaaaaaaaaaaaaaaa of bbbbbbbbbbbbbbbb')
  assert.deepEqual(askedIn([verdict]), asked)
  assert.deepEqual(askedIn([askedVerdict(asked.question, { ...asked, key: null })]), { ...asked, key: null })
  assert.equal(askedIn([{ ...verdict, note: 'x' }]), undefined)
})

test('a candidate beside an answer follows it and does not count', () => {
  const said = { verdicts: [], reward: 1, judge: 'model', hint: null, hintJudge: null, reason: null }
  assert.deepEqual(asShown(said, undefined), said)
  assert.deepEqual(asShown(said, { reason: null }), said)
  assert.deepEqual(asShown(said, { reason: 'abstained' }), said)
  assert.equal(asShown(said, { reason: 'asked_alone' }).reason, 'asked_alone')
  assert.equal(asShown(said, { reason: 'asked_alone' }).reward, null)
})
