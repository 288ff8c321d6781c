/** Behaviours that must hold, whatever the weights are. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reactionModel } from '../../shell/weights.ts'
import { GENERAL_WORDINGS, WORDINGS } from '../hints.ts'
import { judgeTurn } from '../../shell/judges.ts'
import { hintOfWords, judgeReaction, reactionsId, readWords } from './judge.ts'
import { featuresOf } from './features.ts'
import { readReaction, valueOf, WISHES, type Wish } from './model.ts'
import { MOST } from './text.ts'

const REQUEST = 'What is the capital of Australia?'
const ANSWER = 'The capital of Australia is **Sydney**.'
const said = (user: string, tools = '', answer = ANSWER, request = REQUEST) =>
  judgeReaction(reactionModel(), { turn: 't', request, answer, calls: false, next: { user, tools } }, { movedOn: null })
const all = (value: number | null, ...words: string[]): void => {
  const wrong = words.filter((one) => said(one).value !== value)
  assert.deepEqual(wrong, [])
}

test('a sign alone is an opinion', () => {
  all(-1, '👎', '👎🏽', 'thumbs down', '😡', '🙄')
  all(1, '👍', '👍🏽', 'thumbs up', '❤️', '👏')
})

test('thanks and praise are +1', () => {
  all(1, 'Thanks!', 'thx!!', 'Perfect, thank you.', 'great, it works', 'Great answer, thanks!', 'not bad at all')
  all(1, 'Vielen Dank!', 'merci beaucoup', 'muchas gracias', '谢谢', 'ありがとう')
})

test('a correction, a complaint and the same request again are −1', () => {
  all(-1, 'No, that is wrong.', "that's not right", 'this is wrong, try again', "No, it's Canberra.")
  all(-1, REQUEST, 'what is the capital of australia')
  all(-1, 'das stimmt nicht', "c'est faux", 'no es correcto', '不对')
})

test('praise for what broke is none', () => {
  all(-1, 'great, it crashed', 'perfect, another error', 'thanks, but the build failed', 'thanks for nothing')
})

test('the right answer that a person gives instead is no praise', () => {
  all(-1, 'The right answer is Canberra.')
  assert.notEqual(said('Correct answer: Canberra.').value, 1)
  assert.equal(said('Correct answer: Canberra.', '', 'The capital of Australia is Sydney.').value, -1)
})

test('who thinks again is read by what comes after', () => {
  all(1, 'no wait, actually I like it')
  all(-1, 'good, but way too long', 'Thanks, but that is wrong.')
})

test('another topic says nothing of the answer', () => {
  all(null, 'What is the population of Perth?', 'Write a poem about the sea.', 'I have to go now', 'hm', '')
})

test('results of tools: failed tests are −1, passed ones +1, a listing and a dead network nothing', () => {
  const tool = (tools: string) => said('', tools, 'I fixed the parser.', 'Fix the parser and run the tests.').value
  assert.equal(tool('Tests: 3 failed, 41 passed, 44 total'), -1)
  assert.equal(tool('===== 44 passed in 1.20s ====='), 1)
  assert.equal(tool('src\npackage.json\nREADME.md'), null)
  assert.equal(tool('npm ERR! network request failed, reason: connect ETIMEDOUT'), null)
})

test('nothing that was said is no opinion', () => {
  assert.deepEqual(said('', ' '), { value: null, note: 'nothing was said', hint: null })
  const evidence = { request: REQUEST, answer: ANSWER, calls: false, next: null }
  assert.equal(judgeReaction(reactionModel(), evidence, { movedOn: null }).value, null)
})

test('a wish gives the hint that fulfils it, without its opposite', () => {
  const cases = {
    shorter: ['Can you say that in a single sentence?', 'Too long.', 'shorter please'],
    longer: ['Too short.', 'more detail, please', 'Can you elaborate?'],
    unformatted: ['Without the bold, please.', 'no markdown please', 'plain text please'],
    structured: ['as a list please', 'put it in a table'],
    warmer: ['That was cold, be warmer.', 'be a bit friendlier'],
    drier: ['more neutral please', 'tone it down'],
  } as const
  for (const [wish, words] of Object.entries(cases))
    for (const one of words) {
      const hint = hintOfWords(reactionModel(), one, { turn: 't', request: REQUEST, answer: ANSWER })
      assert.ok(hint !== null && WORDINGS[wish as keyof typeof cases].includes(hint), `${one}: ${hint}`)
    }
})

test('a clear wish for another form is −1 at a lower probability; one for a value or an undo is not', () => {
  const least = { bad: 0.7, good: 0.6, wish: 0.5, wished: 0.55 }
  const value = (bad: number, good: number, wish: Wish, probability: number) => {
    const rest = (1 - probability) / (WISHES.length - 1)
    return valueOf(
      {
        labels: Float64Array.of(bad, 1 - bad - good, good),
        wishes: Float64Array.from(WISHES, (one) => (one === wish ? probability : rest)),
      },
      least,
    )
  }
  assert.equal(value(0.7, 0.1, 'other', 0.9), -1)
  assert.equal(value(0.1, 0.6, 'shorter', 0.9), 1)
  assert.equal(value(0.55, 0.1, 'shorter', 0.5), -1)
  assert.equal(value(0.54, 0.1, 'shorter', 0.9), null)
  assert.equal(value(0.6, 0.1, 'shorter', 0.49), null)
  for (const wish of ['fix_value', 'undo', 'other'] as const) assert.equal(value(0.6, 0.1, wish, 0.9), null)
})

test('a correction gives its value; a complaint without a value, and an undo, give no hint', () => {
  for (const words of ["No, it's Canberra.", 'It should be Canberra.', 'The right answer is Canberra.'])
    assert.match(said(words).hint ?? '', /\bCanberra\b/, words)
  for (const words of ['No, that is wrong.', 'undo that', 'Sydney? no.']) assert.equal(said(words).hint, null, words)
})

test('a hint states a value from a probability of 0.5 on; from 0.4 on the value is a claim, on which the score waits', () => {
  const plain = 'The capital is Sydney.'
  const bands = { none: 0, claim: 0, stated: 0 }
  const words = [
    'undo that, those were Canberra records',
    'you forgot Canberra',
    'Canberra please',
    'people in Canberra would disagree',
    'I thought of Canberra',
    "No, it's Canberra.",
    'Actually Canberra',
  ]
  for (const user of words) {
    const { wishes } = readReaction(reactionModel(), { request: REQUEST, answer: plain, user, tools: '' })
    const fix = wishes[WISHES.indexOf('fix_value')]!
    const { hint, claim } = readWords(reactionModel(), user, { turn: 't', request: REQUEST, answer: plain })
    bands[fix < 0.4 ? 'none' : fix < 0.5 ? 'claim' : 'stated'] += 1
    assert.equal(claim, fix < 0.4 ? null : 'Canberra', `${user}: ${fix}`)
    assert.equal(hint?.includes('Canberra') === true, fix >= 0.5, `${user}: ${fix}`)
  }
  assert.ok(
    Object.values(bands).every((count) => count > 0),
    JSON.stringify(bands),
  )
})

test('a hint states no single ideograph, which still is a claim', () => {
  const read = (user: string) =>
    readWords(reactionModel(), user, { turn: 't', request: '7加6等于几？', answer: '7加6等于13。' })
  assert.deepEqual(read('不对，应该是雪。'), { hint: null, claim: '雪' })
  assert.match(read('不对，应该是14。').hint ?? '', /14/)
})

test('of a text that is longer than MOST, the first and the last half of MOST are read', () => {
  const none = (): boolean => true
  const features = (user: string) => featuresOf({ request: '', answer: '', user, tools: '' }, none)
  const long = `${'good '.repeat(MOST / 10)}${'x '.repeat(50_000)}${' bad'.repeat(MOST / 8)}`
  assert.deepEqual(features(long), features(`${long.slice(0, MOST / 2)}\n${long.slice(-MOST / 2)}`))
  assert.equal(said(`${'lorem ipsum '.repeat(20_000)}`).note, said(`${'lorem ipsum '.repeat(20_000)}`).note)
})

test('the same reaction gives the same judgement', () => {
  assert.deepEqual(said("No, it's Canberra."), said("No, it's Canberra."))
})

test('a person who turns to something else gets the value of the settings', () => {
  const evidence = { request: REQUEST, answer: ANSWER, calls: false, next: { user: 'What do koalas eat?', tools: '' } }
  assert.equal(judgeReaction(reactionModel(), evidence, { movedOn: 0.5 }).value, 0.5)
  assert.equal(judgeReaction(reactionModel(), evidence, { movedOn: null }).value, null)
})

test('the wordings of general models are another judge, with the same verdicts', () => {
  const evidence = {
    turn: 't',
    request: REQUEST,
    answer: ANSWER,
    calls: false,
    next: { user: 'Shorter, please.', tools: '' },
  }
  const general = { movedOn: null, wordings: 'general' } as const
  const [own, other] = [{ movedOn: null }, general].map((one) => judgeReaction(reactionModel(), evidence, one))
  assert.equal(other?.value, own?.value)
  assert.ok(GENERAL_WORDINGS.shorter?.includes(other?.hint ?? '') && WORDINGS.shorter.includes(own?.hint ?? ''))
  const id = (settings: Parameters<typeof reactionsId>[1]): string => reactionsId(reactionModel(), settings)
  assert.equal(id({ movedOn: null, wordings: 'tiny' }), id({ movedOn: null }))
  assert.notEqual(id(general), id({ movedOn: null }))
})

test('a comment of explicit feedback has a hint in the wordings that are set', async () => {
  const evidence = { request: REQUEST, answer: ANSWER, calls: false, next: null }
  const feedback = { id: 'f', record: 'r', value: -1, at: 1, comment: 'Shorter, please.' }
  const hintIn = async (...wordings: ['general'?]): Promise<string> =>
    (await judgeTurn([], { feedback }, evidence, new AbortController().signal, ...wordings)).hint ?? ''
  assert.ok(WORDINGS.shorter.includes(await hintIn()))
  assert.ok(GENERAL_WORDINGS.shorter?.includes(await hintIn('general')))
})

test('a run of blanks is read as one', () => {
  for (const blank of [' ', '\t', '\r', '\u00a0', '\u2003'])
    assert.deepEqual(said(`not${blank.repeat(1500)}Sydney, it is Canberra`), said('not Sydney, it is Canberra'))
})
