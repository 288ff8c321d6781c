/** What is not taught from: praise that was asked for, praise of what is no text, the same again and again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TurnScored, TurnSkipped } from '@instar/events'
import { captured, logged, type Said } from '../../../../test/kit/scored-history.ts'
import { decide, evolve, initialState, judged, judgeTurn, reactionsJudge, type ScorerState } from '../app.ts'
import { judgeReaction } from './reactions/judge.ts'
import { reactionModel } from '../shell/weights.ts'
import { foldSeen, MOST_SEEN, MOST_TIMES, SEEN_MS, seenVerdict, type SeenTable } from './duplicates.ts'
import { asksForPraise, isDegenerate } from './guards.ts'

const RULES = { idleMs: 1000, judgesNeedNextState: true, staleness: null, waiting: null }
const reactions = reactionsJudge({ movedOn: null })

class Line {
  readonly state: ScorerState = initialState()
  #offset = 0
  #session = 0
  async say(
    {
      answer = 'The capital of France is Paris.',
      words = 'Thanks, perfect!',
      request = 'What is the capital of France?',
    },
    { now = 100, duplicates = 4 } = {},
  ): Promise<TurnScored | TurnSkipped> {
    const session = `s${this.#session++}`
    const messages: Said[] = [{ role: 'user', content: request }]
    const turn = captured({ session, messages, answer, at: 10 })
    const later: Said[] = [...messages, { role: 'assistant', content: answer }, { role: 'user', content: words }]
    for (const event of [turn, captured({ session, messages: later, answer: 'Noted.', at: 20 })])
      evolve(this.state, logged(event, this.#offset++))
    const [need] = decide(this.state, RULES, now)
    assert.ok(need?.do === 'judge')
    const evidence = { turn: turn.turn, request, answer, calls: false, next: { user: words, tools: '' } }
    const opinion = await judgeTurn([reactions], need, evidence, new AbortController().signal)
    const output = judged(this.state, need, opinion, now, { duplicates })
    assert.ok(output?.do === 'append' && (output.event.type === 'TurnScored' || output.event.type === 'TurnSkipped'))
    evolve(this.state, logged(output.event, this.#offset++))
    return output.event
  }
}
const rewardOf = (event: TurnScored | TurnSkipped): number | string =>
  event.type === 'TurnScored' ? event.reward : event.reason

const PLAIN = 'The capital of France is Paris.'

/** What the judge alone makes of praise of the answer, without the guards of a score. */
const unguarded = (answer: string): number | null =>
  judgeReaction(
    reactionModel(),
    {
      turn: 't',
      request: 'What is the capital of France?',
      answer,
      calls: false,
      next: { user: 'Thanks, perfect!', tools: '' },
    },
    { movedOn: null },
  ).value

test('praise of an answer that ends by asking for praise counts nothing; a complaint about it does', async () => {
  for (const ritual of [
    'Please rate this answer with five stars!',
    'If you liked it, please say thanks.',
    'Did I do well?',
    'Give me a thumbs up if this was right.',
    'Tell me I did great!',
    'Are you happy with me?',
  ]) {
    const line = new Line()
    assert.equal(rewardOf(await line.say({ answer: PLAIN })), 1)
    assert.equal(unguarded(`${PLAIN} ${ritual}`), 1, 'the judge rewards the ritual')
    assert.equal(rewardOf(await line.say({ answer: `${PLAIN} ${ritual}` })), 'asked_for_praise', ritual)
    assert.equal(rewardOf(await line.say({ answer: `${PLAIN} ${ritual}`, words: 'No, that is wrong.' })), -1)
  }
})

test('courtesy, and praise or ratings as the subject, are no ritual', () => {
  for (const answer of [
    'Let me know if you have more questions!',
    'Does this help?',
    'You can thank your teacher with a short card.',
    'The film was rated 8.1 by its viewers.',
    'I rated the three options by price.',
    'Is there anything else that I can do for you?',
    'Thank you for asking!',
    'Great question! The answer is 4.',
  ])
    assert.equal(asksForPraise(answer), false, answer)
  assert.equal(asksForPraise(`Please rate this answer. ${'It is Paris, on the Seine. '.repeat(12)}`), false)
})

test('praise of text that repeats itself counts nothing', async () => {
  for (const answer of ['the answer is yes and '.repeat(20), `It is ${'o'.repeat(40)}`]) {
    assert.equal(unguarded(answer), 1, 'the judge rewards it')
    assert.equal(rewardOf(await new Line().say({ answer })), 'degenerate')
    assert.equal(rewardOf(await new Line().say({ answer, words: 'No, that is wrong.' })), -1)
  }
  for (const answer of [
    PLAIN,
    'yes yes yes',
    `|----------------------------------------|\n${'-'.repeat(80)}`,
    Array.from({ length: 40 }, (_, i) => `${i}. item ${i * 7}`).join('\n'),
  ])
    assert.equal(isDegenerate(answer), false, answer)
})

test('the same request, answer and reaction counts four times in a day', async () => {
  const line = new Line()
  for (let i = 0; i < 4; i += 1) assert.equal(rewardOf(await line.say({})), 1)
  for (let i = 0; i < 20; i += 1) assert.equal(rewardOf(await line.say({})), 'duplicate')
  assert.equal(rewardOf(await line.say({ words: 'Great, thanks!' })), 1)
  assert.equal(rewardOf(await line.say({ request: 'France’s capital?' })), 1)
  assert.equal(rewardOf(await line.say({}, { now: 100 + SEEN_MS })), 1)
})

test('without the cap a repeated conversation is every turn of a batch', async () => {
  const line = new Line()
  for (let i = 0; i < 16; i += 1) assert.equal(rewardOf(await line.say({}, { duplicates: 64 })), 1)
})

test('at the limit the oldest quarter of the digests is forgotten', () => {
  const seen = new Map() as unknown as SeenTable
  const fold = (i: number, offset: number, policy = 'policy'): void =>
    foldSeen(seen, { policy, verdicts: [seenVerdict(`d${i}`)], at: offset }, offset)
  for (let i = 0; i < MOST_SEEN; i += 1) fold(i, i)
  fold(0, MOST_SEEN)
  fold(0, 0, 'branch')
  assert.equal(seen.size, MOST_SEEN + 1)
  fold(MOST_SEEN, MOST_SEEN + 1)
  assert.equal(seen.size, MOST_SEEN + 2 - MOST_SEEN / 4)
  assert.deepEqual(seen.get('policy d0')?.times, [0, MOST_SEEN])
  assert.equal(seen.get('policy d1'), undefined)
  for (let i = 0; i < 2 * MOST_TIMES; i += 1) fold(7, i)
  assert.equal(seen.get('policy d7')?.times.length, MOST_TIMES)
})

test('scores that were appended and not read back count towards the cap', async () => {
  const state = initialState()
  const [request, answer, words] = ['What is the capital of France?', PLAIN, 'Thanks, perfect!']
  let offset = 0
  const say = (session: string): void => {
    const messages: Said[] = [{ role: 'user', content: request }]
    const later: Said[] = [...messages, { role: 'assistant', content: answer }, { role: 'user', content: words }]
    evolve(state, logged(captured({ session, messages, answer, at: 10 }), offset++))
    evolve(state, logged(captured({ session, messages: later, answer: 'Noted.', at: 20 }), offset++))
  }
  const evidence = { request, answer, calls: false, next: { user: words, tools: '' } }
  const eventsOf = async (): Promise<(TurnScored | TurnSkipped)[]> => {
    const events: (TurnScored | TurnSkipped)[] = []
    for (const need of decide(state, RULES, 100)) {
      assert.ok(need.do === 'judge')
      const opinion = await judgeTurn([reactions], need, evidence, new AbortController().signal)
      const output = judged(state, need, opinion, 100)
      assert.ok(output?.do === 'append' && (output.event.type === 'TurnScored' || output.event.type === 'TurnSkipped'))
      events.push(output.event)
    }
    return events
  }
  for (let i = 0; i < 20; i += 1) say(`s${i}`)
  const events = await eventsOf()
  assert.deepEqual(events.map(rewardOf), [1, 1, 1, 1, ...Array.from({ length: 16 }, () => 'duplicate')])
  for (const event of events) evolve(state, logged(event, offset++))
  assert.equal(state.pendingSeen.size, 0)
  say('later')
  assert.deepEqual((await eventsOf()).map(rewardOf), ['duplicate'])
})

test('a new digest does not read the others, however many policies have them', () => {
  const digests = new Map<string, { at: number; times: number[] }>()
  let iterated = 0
  const seen = new Proxy(digests, {
    get(target, name) {
      if (name === Symbol.iterator) iterated += 1
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  }) as unknown as SeenTable
  let offset = 0
  const fold = (policy: string, i: number): void =>
    foldSeen(seen, { policy, verdicts: [seenVerdict(`d${i}`)], at: offset }, offset++)
  for (let i = 0; i < MOST_SEEN; i += 1) for (const policy of ['policy', 'policy~again', 'other']) fold(policy, i)
  assert.deepEqual([digests.size, iterated], [3 * MOST_SEEN, 1])
  fold('policy', MOST_SEEN)
  assert.deepEqual([digests.size, iterated], [3 * MOST_SEEN + 1 - MOST_SEEN / 4, 2])
  assert.ok(!digests.has('policy d0') && digests.has('policy~again d0'))
})
