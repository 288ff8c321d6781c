/** Words that the rules once took for their opposite, or for nothing; each is a case of its own, not a measure. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hintFor } from '../hints.ts'
import { COMPLAINTS, type Complaint } from './complaints.ts'
import { hintOfWords, judgeBySignals } from './signals.ts'

const REQUEST = 'What is the capital of Australia?'
const ANSWER = 'The capital of Australia is **Sydney**.'
const judge = (user: string, answer = ANSWER) =>
  judgeBySignals({ request: REQUEST, answer, calls: false, next: { user, tools: '' } }, { movedOn: null })
const values = (...said: string[]): (number | null)[] => said.map((words) => judge(words).value)

test('a sign alone is an opinion, wherever it stands', () => {
  assert.deepEqual(
    values('👎', '👎🏽', 'no👎', 'hm 👎👎', 'thumbs down', 'Thumbs-down.', 'I give it a thumbs down', '😡', '🙄'),
    Array.from({ length: 9 }, () => -1),
  )
  assert.deepEqual(
    values('👍', '👍🏽', 'thumbs up', '❤️', '👏'),
    Array.from({ length: 5 }, () => 1),
  )
})

test('whoever says what the correct answer is corrects, unless it is what was answered', () => {
  for (const words of [
    'Correct answer: Canberra.',
    'The correct answer: Canberra',
    'correct: Canberra',
    'Right answer: Canberra!',
    'Actual capital = Canberra',
  ]) {
    const { value, hint } = judge(words)
    assert.deepEqual([value, hint], [-1, 'The right answer is Canberra.'], words)
  }
  assert.equal(judge('Correct answer: Canberra.', 'It is Canberra.').value, 1)
  assert.deepEqual(values('Correct answer!', 'That is the correct answer.', 'Correct.'), [1, 1, 1])
})

test('praise for what broke is none', () => {
  assert.deepEqual(
    values(
      'great, it crashed',
      'Great, now it fails.',
      'perfect, another error',
      'Nice, it broke again',
      'thanks, but the build failed',
      'Awesome, my tests still failed',
    ),
    Array.from({ length: 6 }, () => -1),
  )
  assert.deepEqual(
    values('great, it works', 'Nice, that fixed the crash.', 'Perfect, no more errors!', 'thanks, the error is gone'),
    [1, 1, 1, 1],
  )
})

test('who thinks again is read by what comes after', () => {
  assert.deepEqual(
    values(
      'no wait, actually I like it',
      'No wait, that is right.',
      'wait no, it is perfect',
      'Hmm, no, hold on. It is good.',
    ),
    [1, 1, 1, 1],
  )
  assert.deepEqual(
    [judge('no wait, it is Canberra').value, judge('no wait, it is Canberra').hint],
    [-1, 'The right answer is Canberra.'],
  )
  assert.deepEqual(
    [judge('no, actually I do not like it').value, judge('no, actually I do not like it').hint],
    [-1, null],
  )
})

test('one or two sentences are few, several are many', () => {
  const brief = 'Answer briefly.'
  for (const words of [
    'Can you say that in a single sentence?',
    'Say it in one sentence please.',
    'Could you put it in two sentences?',
    'In just two lines, please.',
  ])
    assert.equal(judge(words).hint, brief, words)
  const full = 'Answer in full detail with several sentences.'
  for (const words of [
    'Please answer in several sentences.',
    'At least two sentences, please.',
    'a single sentence is too short',
    'I need five sentences.',
  ])
    assert.equal(judge(words).hint, full, words)
})

test('a hint never asks for a thing and its opposite, whatever is complained of', () => {
  const opposites = [
    ['Answer in full detail with several sentences.', 'Answer briefly.'],
    ['Answer in plain text.', 'Answer as a list.'],
    ['Answer in a warm and friendly way.', 'Answer in a neutral tone.'],
  ]
  const names = Object.keys(COMPLAINTS) as Complaint[]
  for (let set = 0; set < 1 << names.length; set += 1) {
    const hint = hintFor(new Set(names.filter((_, i) => (set >> i) & 1)), null) ?? ''
    for (const pair of opposites) assert.ok(!pair.every((sentence) => hint.includes(sentence)), hint)
  }
  for (const words of [
    'Shorter, but with more detail.',
    'As a list, but no bold.',
    'Less formal but not over the top.',
  ])
    assert.equal(judge(words).hint, null, words)
  assert.equal(
    hintFor(new Set(['short', 'long', 'cold']), '12'),
    'The right answer is 12. Answer in a warm and friendly way.',
  )
  assert.equal(hintOfWords('Too short. And way too long!', { request: REQUEST, answer: ANSWER }), null)
})

test('a run of blanks inside a message is read as one blank', () => {
  // On the run itself one pattern would take the time of its length to the power of three.
  for (const blank of [' ', '\t', '\r', '\u00a0', '\u2003']) {
    const run = blank.repeat(3900)
    assert.deepEqual(judge(`not${run}Sydney, it is Canberra`), judge('not Sydney, it is Canberra'))
    assert.equal(judge(`not${run}x`).value, judge('not x').value)
  }
})
