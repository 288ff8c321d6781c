/** Values teach only when independent people agree: decisions of the core on constructed histories. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  encodeEvent,
  readWritten,
  written,
  type Event,
  type FeedbackGiven,
  type ScoreRevised,
  type TurnScored,
  type TurnSkipped,
  subjectOfSession,
} from '@instar/events'
import { captured, logged, type Said } from '../../../../test/kit/scored-history.ts'
import { decide, evolve, initialState, judged, judgeTurn, reactionsJudge, type ScorerState } from '../app.ts'
import { MOST_PEOPLE, MOST_QUESTIONS, MOST_VALUES, claimIn, claimOf, foldClaim, type ClaimTable } from './claims.ts'
import type { Evidence, Judgement } from './judgement.ts'

const RULES = { idleMs: 1000, judgesNeedNextState: true, staleness: null, waiting: null }
const QUESTION = 'What is 7 plus 6?'
const reactions = reactionsJudge({ movedOn: null })

/** Turns one after another, each corrected and judged as the scorer does it. */
class Line {
  readonly state: ScorerState = initialState()
  readonly events: Event[] = []
  #offset = 0
  #session = 0
  read(event: Event): void {
    this.events.push(event)
    evolve(this.state, logged(event, this.#offset++))
  }
  /** The score of an answer to `question` on which `words` follow, or of explicit feedback on it. */
  async say(
    words: string,
    who: { subject?: string; key?: string | null },
    { feedback = null, shown, ...more }: Partial<Options> = {},
  ): Promise<Score> {
    const how = { ...PLAIN, ...more, words, shown }
    const { question, answer } = how
    const session = `s${this.#session++}`
    const messages: Said[] = [{ role: 'user', content: question }]
    const subject = who.subject ?? subjectOfSession(session)
    const turn = { ...captured({ session, messages, answer, at: 10 }), key: who.key ?? null, subject }
    this.read(turn)
    const later: Said[] = [...messages, { role: 'assistant', content: answer }, { role: 'user', content: words }]
    this.read({ ...captured({ session, messages: later, answer: 'Noted.', at: 20 }), key: who.key ?? null, subject })
    if (feedback !== null) this.read(feedbackOn(turn, feedback, 30))
    return this.#score(turn.turn, how)
  }

  /** Explicit feedback on a turn, on which `words` followed, after its score. */
  async rate(turn: TurnIn, words: string, value: number, comment: string | null = null): Promise<Score> {
    this.read(feedbackOn(turn, { value, comment }, 40))
    return this.#score(turn.turn, { ...PLAIN, words })
  }

  /** Nothing of what was read needs a score. */
  isSettled = (): boolean => decide(this.state, RULES, 100).length === 0

  async #score(id: string, how: typeof PLAIN & { words: string; shown?: string | undefined }): Promise<Score> {
    const { question, answer, words, tools, agreement, judge, shown, duplicates } = how
    const [request] = decide(this.state, RULES, 100)
    assert.ok(request?.do === 'judge' && request.turn === id)
    const evidence: Evidence = {
      turn: id,
      request: question,
      answer,
      calls: false,
      ...(shown === undefined ? {} : { shown }),
      next: { user: words, tools },
    }
    const opinion = await judgeTurn([judge], request, evidence, new AbortController().signal)
    const output = judged(this.state, request, opinion, 100, { agreement, duplicates })
    assert.ok(output?.do === 'append' && 'verdicts' in output.event, words)
    this.read(output.event)
    return output.event
  }
}
type Score = TurnScored | TurnSkipped | ScoreRevised
type TurnIn = { turn: string; session: string }
type Explicit = { value: number; comment: string | null }
type Options = typeof PLAIN & { feedback: Explicit | null; shown: string }
const PLAIN = { question: QUESTION, answer: '13', tools: '', agreement: 2, duplicates: 64, judge: reactions }

const feedbackOn = ({ turn, session }: TurnIn, { value, comment }: Explicit, at: number): FeedbackGiven => ({
  type: 'FeedbackGiven',
  id: `f${at}`,
  session,
  turn,
  value,
  comment: comment === null ? null : written(comment),
  subject: 'rater',
  key: null,
  at,
})

const LIE = 'No. The right answer is 14.'
const OTHER = 'No. The right answer is 15.'
const model = (hint: string) => ({
  id: 'llm',
  needsNextState: false,
  judge: (): Judgement => ({ value: -1, note: 'bad', hint }),
})
const hintOf = (score: Score): string | null =>
  score.type === 'TurnSkipped' || score.hint === null ? null : readWritten(score.hint)
const rewardOf = (score: Score): number | string => (score.type === 'TurnSkipped' ? score.reason : score.reward)

test('a correction with a value that one person claims, however often and under whatever sessions, teaches nothing', async () => {
  for (const who of [{ subject: 'liar' }, {}, { key: 'k', subject: 'a' }]) {
    const line = new Line()
    for (let i = 0; i < 20; i += 1) {
      const score = await line.say(LIE, who.key ? { ...who, subject: `name ${i}` } : who)
      assert.deepEqual([score.type, rewardOf(score), score.rank], ['TurnSkipped', 'unagreed', null])
      assert.deepEqual(claimIn(score.verdicts)?.agreed, false)
    }
  }
})

test('without the guard the first lie is reward and hint', async () => {
  const score = await new Line().say(LIE, { subject: 'liar' }, { agreement: 1 })
  assert.equal(rewardOf(score), -1)
  assert.match(hintOf(score) ?? '', /14/u)
})

const THANKS = 'Thank you, that is right.'

test('praise of an answer with the value that its person alone claims counts once another agrees', async () => {
  const line = new Line()
  const said = async (words: string, subject: string, answer: string, question = QUESTION) =>
    rewardOf(await line.say(words, { subject }, { answer, question }))
  const [false14, right] = ['The sum of 7 and 6 is 14.', 'The sum of 7 and 6 is 13.']
  assert.equal(await said(THANKS, 'liar', false14), 1)
  assert.equal(await said(LIE, 'liar', right), 'unagreed')
  assert.equal(await said(THANKS, 'liar', false14), 'unagreed')
  assert.equal(await said(THANKS, 'liar', 'what is 7 plus 6: **14**!'), 'unagreed')
  assert.equal(await said(THANKS, 'liar', right), 1)
  assert.equal(await said(THANKS, 'liar', 'The sum of 7 and 6 is 140.'), 1)
  assert.equal(await said(THANKS, 'liar', false14, 'What is 8 plus 6?'), 1)
  assert.equal(await said(THANKS, 'other', false14), 1)
  assert.equal(await said('No, it is 14.', 'second', right), -1)
  assert.equal(await said(THANKS, 'liar', false14), 1)
})

test('without the guard praise of the value counts', async () => {
  const line = new Line()
  await line.say(LIE, { subject: 'liar' }, { agreement: 1 })
  assert.equal(rewardOf(await line.say(THANKS, { subject: 'liar' }, { answer: '14', agreement: 1 })), 1)
})

test('a claim of several words is found in an answer, of a long answer at its two ends', async () => {
  const [question, right] = ['Who wrote Ulysses?', 'It was Samuel Beckett.']
  const line = new Line()
  assert.equal(
    rewardOf(await line.say('No. It was Flann O’Brien.', { key: 'k' }, { question, answer: right })),
    'unagreed',
  )
  const long = Array.from({ length: 5000 }, (_, i) => `Chapter ${i} has ${i * 7} pages. `).join('')
  for (const [answer, expected] of [
    ['Flann O’Brien wrote it.', 'unagreed'],
    [`${long}It was Flann O’Brien.`, 'unagreed'],
    [`${long}It was Flann O’Brien. ${long}`, 1],
    ['O’Brien, Flann', 1],
  ] as const)
    assert.equal(
      rewardOf(await line.say('Thank you, perfect!', { key: 'k' }, { question, answer })),
      expected,
      answer.slice(-40),
    )
})

test('what is withheld uses up no cap on repetitions, so that others can say it in the same words', async () => {
  const line = new Line()
  const say = async (subject: string) => rewardOf(await line.say(LIE, { subject }, { duplicates: 4 }))
  for (let i = 0; i < 6; i += 1) assert.equal(await say('a'), 'unagreed')
  for (const subject of ['b', 'c', 'd', 'e']) assert.equal(await say(subject), -1)
  assert.equal(await say('f'), 'duplicate')
})

test('a complaint without a value counts, and one whose wish stands beside a value does not', async () => {
  const line = new Line()
  assert.equal(rewardOf(await line.say(LIE, { subject: 'a' })), 'unagreed')
  assert.equal(rewardOf(await line.say('No, that is wrong.', { subject: 'a' })), -1)
  const both = await line.say('Too long and wrong, 14!', { subject: 'a' })
  assert.deepEqual([rewardOf(both), claimIn(both.verdicts)?.agreed], ['unagreed', false])
})

test('explicit feedback with a text that names a value needs agreement; without one it counts', async () => {
  const explicit = (value: number, comment: string | null) => ({ feedback: { value, comment } })
  const line = new Line()
  const commented = await line.say('Go on.', { subject: 'a' }, explicit(-1, 'It is 14.'))
  assert.deepEqual([commented.type, rewardOf(commented), commented.rank?.id], ['TurnSkipped', 'unagreed', 'f30'])
  assert.ok(line.isSettled())
  assert.equal(rewardOf(await line.say(LIE, { subject: 'a' }, explicit(-1, null))), 'unagreed')
  assert.equal(rewardOf(await line.say('Go on.', { subject: 'a' }, { ...explicit(1, null), answer: '14' })), 'unagreed')
  assert.equal(rewardOf(await line.say('Go on.', { subject: 'a' }, explicit(-1, null))), -1)
  assert.equal(rewardOf(await line.say('Go on.', { subject: 'a' }, explicit(1, null))), 1)
  const second = await line.say('Go on.', { subject: 'b' }, explicit(-1, 'It is 14.'))
  assert.equal(rewardOf(second), -1)
  assert.match(hintOf(second) ?? '', /14/u)
})

test('a value that is likely enough to be claimed, and too unlikely to be a hint, makes a complaint wait for agreement', async () => {
  const capital = { question: 'What is the capital of Australia?', answer: 'The capital is Sydney.' }
  const words = 'people in Canberra would disagree'
  const explicit = { ...capital, feedback: { value: -1, comment: words } }
  const line = new Line()
  assert.equal(rewardOf(await line.say('Go on.', { subject: 'a' }, explicit)), 'unagreed')
  const second = await line.say('Go on.', { subject: 'b' }, explicit)
  assert.deepEqual([rewardOf(second), hintOf(second)], [-1, null])
})

test('feedback that names a value on which nobody agrees takes the place of an earlier score', async () => {
  const line = new Line()
  const praised = await line.say(THANKS, { subject: 'a' })
  assert.equal(rewardOf(praised), 1)
  const revised = await line.rate(praised, THANKS, -1, 'It is 14.')
  assert.deepEqual([revised.type, rewardOf(revised), revised.rank?.id], ['TurnSkipped', 'unagreed', 'f40'])
  assert.equal(line.state.scores.get('policy')?.turns.get(praised.turn)?.reward, null)
  assert.ok(line.isSettled())
})

test('a background candidate with the value of one person is not rewarded for it', async () => {
  const judge = { ...model(''), judge: (): Judgement => ({ value: 1, note: 'as the person said', hint: null }) }
  const line = new Line()
  for (const [answer, expected] of [
    ['It is 14.', 'unagreed'],
    ['It is 15.', 1],
  ] as const)
    assert.equal(rewardOf(await line.say(LIE, { subject: 'a' }, { answer, shown: '13', judge })), expected)
  assert.equal(rewardOf(await line.say(LIE, { subject: 'b' }, { answer: 'It is 14.', shown: '13', judge })), 1)
})

test('wishes count; a name or another fact of a person is a value; a private one is no claim, and its complaint counts', async () => {
  const scoreOf = async (question: string, answer: string, words: string) => {
    const score = await new Line().say(words, { subject: 'a' }, { question, answer })
    return [rewardOf(score), hintOf(score), claimIn(score.verdicts) !== null]
  }
  const text = 'Photosynthesis is how plants make sugar.'
  const [reward, hint, claims] = await scoreOf('Explain photosynthesis.', text, 'Too long. At most 25 words.')
  assert.deepEqual([reward, hint !== null, claims], [-1, true, false])
  assert.deepEqual(await scoreOf('Write a greeting for me.', 'Hello Hanna!', 'It’s Anna, not Hanna.'), [
    'unagreed',
    null,
    true,
  ])
  assert.deepEqual(await scoreOf('What is my number?', 'It is 555-1234.', 'No, it is 555-987-6543.'), [-1, null, false])
})

test('the second subject, or the second key, that claims the same value teaches it', async () => {
  for (const people of [
    [{ subject: 'a' }, { subject: 'b' }],
    [
      { key: 'k', subject: 'same' },
      { key: 'l', subject: 'same' },
    ],
  ]) {
    const line = new Line()
    assert.equal(hintOf(await line.say(LIE, people[0]!)), null)
    assert.match(hintOf(await line.say('No, it is 14.', people[1]!)) ?? '', /14/u)
  }
})

test('a value that as many claim as another is not taught, and one that more claim is', async () => {
  const line = new Line()
  await line.say(LIE, { subject: 'a' })
  await line.say(LIE, { subject: 'b' })
  assert.equal(hintOf(await line.say(OTHER, { subject: 'c' })), null)
  assert.equal(hintOf(await line.say(OTHER, { subject: 'd' })), null)
  assert.match(hintOf(await line.say(OTHER, { subject: 'e' })) ?? '', /15/u)
})

test('another question, in other words, is another claim', async () => {
  const line = new Line()
  await line.say(LIE, { subject: 'a' })
  assert.equal(hintOf(await line.say(LIE, { subject: 'b' }, { question: 'What is 8 plus 6?' })), null)
  assert.match(hintOf(await line.say(LIE, { subject: 'b' }, { question: 'what is 7 plus 6' })) ?? '', /14/u)
})

test('a result of a tool, which the client writes, confirms nothing for its own person, and counts as the word of another', async () => {
  const line = new Line()
  const returned = { tools: 'sum = 14', judge: model('The right answer is 14.') }
  for (let i = 0; i < 3; i += 1) assert.equal(hintOf(await line.say(LIE, { key: 'a' }, returned)), null)
  assert.match(hintOf(await line.say(LIE, { key: 'b' })) ?? '', /14/u)
})

test('a wish without a value is taught as it was', async () => {
  assert.notEqual(hintOf(await new Line().say('Please use plain text, no bold.', { subject: 'a' })), null)
})

test('a value in the hint of a model as judge, or in the words that it judges, needs agreement, too', async () => {
  const line = new Line()
  const say = async (subject: string, hint: string) =>
    hintOf(await line.say('No, 14, and shorter.', { subject }, { judge: model(hint) }))
  assert.equal(await say('a', 'Say that 7 plus 6 is 14.'), null)
  assert.equal(await say('a', 'Give a short answer.'), null)
  assert.equal(await say('b', 'Answer that it is 14.'), 'Answer that it is 14.')
  assert.equal(await say('c', 'Give a short answer.'), 'Give a short answer.')
})

test('what was claimed is a function of the scores on the log, whatever else is read between them', async () => {
  const line = new Line()
  for (const [i, words] of [LIE, OTHER, LIE, LIE].entries()) await line.say(words, { subject: `p${i % 3}` })
  const again = initialState()
  const scores = line.events.filter((event) => 'verdicts' in event)
  const rest = line.events.filter((event) => !('verdicts' in event))
  assert.deepEqual([scores.length, rest.length], [4, 8])
  for (const [offset, event] of [...scores, ...rest].entries()) evolve(again, logged(event, offset))
  const held = (table: ClaimTable) => [...table].map(([name, { values }]) => [name, values])
  assert.deepEqual(held(again.claims), held(line.state.claims))
  assert.equal(held(again.claims).length, 1)
  assert.ok(scores.every((event) => encodeEvent(event).payload.length < 2000))
})

const hex = (n: number): string => n.toString(16).padStart(16, '0')
const scored = (about: number, is: number, person: number, policy = 'policy') => {
  const note = `withheld: value ${hex(is)} of question ${hex(about)} by ${hex(person)}; 1 of 2 people`
  return { policy, verdicts: [{ judge: 'values', value: null, note }] }
}

test('at the limit the question with the oldest claim is forgotten; values and people have limits of their own', () => {
  const claims = new Map<string, never>() as unknown as ClaimTable
  for (let i = 0; i < MOST_QUESTIONS; i += 1) foldClaim(claims, scored(i, 1, 1), i)
  foldClaim(claims, scored(0, 1, 2), MOST_QUESTIONS)
  foldClaim(claims, scored(0, 1, 1, 'branch'), 0)
  assert.equal(claims.size, MOST_QUESTIONS + 1)
  foldClaim(claims, scored(MOST_QUESTIONS, 1, 1), MOST_QUESTIONS + 1)
  assert.equal(claims.size, MOST_QUESTIONS + 1)
  assert.equal(claims.get(`policy ${'0'.repeat(15)}1`), undefined)
  assert.deepEqual(claims.get(`policy ${'0'.repeat(16)}`)?.values, {
    [`${'0'.repeat(15)}1`]: ['1', '2'].map((n) => n.padStart(16, '0')),
  })
  for (let i = 0; i < 2 * MOST_VALUES; i += 1)
    for (let person = 0; person < 2 * MOST_PEOPLE; person += 1) foldClaim(claims, scored(7, i, 100 * i + person), i)
  const { values } = claims.get(`policy ${'0'.repeat(15)}7`)!
  assert.equal(Object.keys(values).length, MOST_VALUES)
  assert.ok(Object.values(values).every((people) => people.length <= MOST_PEOPLE))
})

test('values that one person invents displace no value of another, and nobody is refused for them', () => {
  const claims: ClaimTable = new Map()
  foldClaim(claims, scored(1, 999, 8), 0)
  for (let i = 0; i < 100; i += 1) foldClaim(claims, scored(1, i, 7), i + 1)
  assert.deepEqual(Object.keys(claims.get(`policy ${hex(1)}`)!.values), [999, 96, 97, 98, 99].map(hex))
  // Many people with a value each: the values of single people make room, the first ones first.
  foldClaim(claims, scored(1, 999, 9), 200)
  for (let i = 0; i < 100; i += 1) foldClaim(claims, scored(1, 2000 + i, 100 + i), 300 + i)
  const { values } = claims.get(`policy ${hex(1)}`)!
  assert.equal(Object.keys(values).length, MOST_VALUES)
  assert.deepEqual(values[hex(999)], [8, 9].map(hex))
  assert.deepEqual(values[hex(2099)], [hex(199)])
})

test('questions that one person invents displace those of that person', () => {
  const claims: ClaimTable = new Map()
  for (let i = 0; i < 10; i += 1) foldClaim(claims, scored(1e6 + i, 1, 8), i)
  for (let i = 0; i < MOST_QUESTIONS + 100; i += 1) foldClaim(claims, scored(i, 1, 7), 10 + i)
  assert.equal(claims.size, MOST_QUESTIONS)
  for (let i = 0; i < 10; i += 1) assert.ok(claims.get(`policy ${hex(1e6 + i)}`), `${i}`)
  assert.ok(claims.get(`policy ${hex(MOST_QUESTIONS + 99)}`))
})

/** Characters that the readers of a turn go through, as they normalize all they read. */
const readIn = async (evidence: Partial<Evidence>, value: number | null, judge = reactions): Promise<number> => {
  const all = { request: QUESTION, answer: '13', calls: false, next: { user: LIE, tools: '' }, ...evidence }
  const { normalize } = String.prototype
  let count = 0
  String.prototype.normalize = function (this: string, form?: string) {
    count += this.length
    return normalize.call(this, form)
  }
  try {
    const feedback = value === null ? null : { id: 'f', record: 'r', value, at: 1, comment: 'It is 14.' }
    await judgeTurn([judge], { feedback } as never, all, new AbortController().signal)
  } finally {
    String.prototype.normalize = normalize
  }
  return count
}

test('of long texts the two ends are read, whoever judges', async () => {
  const long = 'alpha beta gamma delta. '.repeat(1e5)
  const texts: Partial<Evidence>[] = [
    { request: long },
    { answer: long },
    { next: { user: `${long} ${LIE}`, tools: '' } },
    { next: { user: LIE, tools: long } },
  ]
  for (const evidence of texts)
    for (const read of [
      await readIn(evidence, null),
      await readIn(evidence, -1),
      await readIn(evidence, null, model('The right answer is 14.')),
      await readIn(evidence, null, { ...model(''), judge: () => ({ value: 1, note: 'good', hint: null }) }),
    ])
      assert.ok(read <= 100_000, `${read} of ${Object.keys(evidence).join()}`)
})

test('long questions with the same ends are two questions', async () => {
  const line = new Line()
  const question = (middle: string) => `${'x '.repeat(2e4)}${middle}${' y'.repeat(2e4)}`
  assert.equal(hintOf(await line.say(LIE, { key: 'a' }, { question: question('7') })), null)
  assert.equal(hintOf(await line.say(LIE, { key: 'b' }, { question: question('8') })), null)
  assert.match(hintOf(await line.say(LIE, { key: 'c' }, { question: question('7') })) ?? '', /14/u)
})

test('a verdict that is not ours is no claim', () => {
  for (const note of ['', 'agreed', 'withheld: value x of question y by z; 1 of 2 people'])
    assert.equal(claimIn([{ judge: 'values', value: null, note }]), null)
  assert.equal(claimIn([{ judge: 'llm', value: null, note: scored(1, 1, 1).verdicts[0]!.note }]), null)
})

test('numbers that differ in how often a digit stands in a row are different questions and values', () => {
  const about = (request: string): string => claimOf('5', { request }).about
  assert.notEqual(about('What is 111 plus 6?'), about('What is 11 plus 6?'))
  assert.notEqual(claimOf('1000', { request: QUESTION }).is, claimOf('100', { request: QUESTION }).is)
})
