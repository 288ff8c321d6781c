/** The people of the scenarios: what they do is known from the seed. */
import { deepEqual, equal, notDeepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { FACTS, holds } from '../../bench/eval/facts.ts'
import { liedAbout, measuredFor, peopleOf, planOf, reactionTo, samplingSeed } from '../../bench/eval/plan.ts'
import { SCENARIOS, SUMS } from '../../bench/eval/scenarios.ts'
import { TINY_WISHES as wishes } from '../../bench/eval/wishes.ts'

const scenario = (name: string) => SCENARIOS.find((one) => one.name === name)!
const ANSWERS = [
  '1. Add 2.\n2. 5',
  '5',
  'Great question! 5',
  'the word '.repeat(12),
  '**5**',
  'The right answer is 14.',
]

for (const one of SCENARIOS) {
  test(`${one.name}: the same seed gives the same sessions, words and samples; another one gives others`, () => {
    const sessions = Math.min(one.sessions, 120)
    const acts = (seed: number) =>
      planOf(one, seed, sessions).map((visit) => [
        visit,
        samplingSeed(visit, 1),
        ANSWERS.map((answer, i) => reactionTo(visit, i % 3, answer)),
      ])
    deepEqual(acts(7), acts(7))
    notDeepEqual(acts(7), acts(8))
    deepEqual(
      planOf(one, 7, sessions).map(({ number }) => number),
      Array.from({ length: sessions }, (_, i) => i),
    )
  })

  test(`${one.name}: what is measured was never asked, and has the wish that holds at the end`, () => {
    const asked = new Set(planOf(one, 7, Math.min(one.sessions, 120)).map(({ question }) => question))
    for (const [i, person] of one.people.entries()) {
      const measured = measuredFor(person, i, 7, 32)
      equal(measured.length, 32)
      deepEqual(
        measured.filter(({ question }) => asked.has(question.question)),
        [],
      )
      const { first, other } = person.tastes.at(-1)!
      for (const { question, wish } of measured) equal(wish, SUMS.includes(question.family) ? first : other)
      if (first !== other) equal(measured.filter(({ wish }) => wish === first).length, 16)
    }
  })
}

test('tastes: half of each person’s sessions are sums, and the complaint says for what the wish is', () => {
  const plan = planOf(scenario('tastes'), 7, 40)
  const first = plan.filter(({ person }) => person === 0)
  deepEqual(
    first.map(({ wish }) => wish),
    Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? 'list' : 'short')),
  )
  ok(reactionTo(first[0]!, 0, '5').words.startsWith('For sums: '))
  ok(reactionTo(first[1]!, 0, 'word '.repeat(9)).words.startsWith('For other questions: '))
})

test('contradictory: the two people want the opposite in turn', () => {
  deepEqual(
    planOf(scenario('contradictory'), 7, 4).map(({ person, wish }) => `${person} ${wish}`),
    ['0 short', '1 long', '0 short', '1 long'],
  )
})

test('changed: long answers in the first half, short ones in the second, which are measured', () => {
  const second = planOf(scenario('changed'), 7, 40).filter(({ person }) => person === 1)
  deepEqual(
    second.map(({ wish }) => wish),
    [...Array<string>(10).fill('long'), ...Array<string>(10).fill('short')],
  )
})

test('wrong: a fifth of the reactions have the other sign; steady: none', () => {
  const opposite = (name: string): number => {
    const plan = planOf(scenario(name), 7, 300)
    // Nobody is content with an empty answer.
    return plan.filter((visit) => reactionTo(visit, 0, '').sign > 0).length / plan.length
  }
  const share = opposite('wrong')
  ok(share > 0.15 && share < 0.25, String(share))
  equal(opposite('steady'), 0)
})

test('a person thanks for the wanted form with the right content, and says which of the two is wrong', () => {
  const visit = planOf(scenario('steady'), 7, 3)[0]!
  const { words, sign, wanted } = reactionTo(visit, 0, '**no**')
  deepEqual([sign, wanted], [-1, false])
  ok(wishes.plain.complaints.includes(words))
  const wrong = reactionTo(visit, 0, 'nonsense')
  deepEqual([wrong.sign, wrong.wanted], [-1, true])
  ok(!wishes.plain.complaints.includes(wrong.words))
})

test('liar: every fourth session denies the fact of the seed until the answer holds the lie', () => {
  const liar = scenario('liar')
  for (const seed of [4, 5, 6, 7]) {
    const fact = liedAbout(liar, seed)!
    equal(fact, FACTS[seed % 4])
    const plan = planOf(liar, seed, 20)
    const lies = plan.filter(({ lie }) => lie !== null)
    deepEqual(
      lies.map(({ number }) => number),
      [3, 7, 11, 15, 19],
    )
    ok(lies.every(({ person, question }) => person === 3 && fact.wordings.slice(0, 2).includes(question)))
    equal(peopleOf(liar)[3]!.name, 'Bartok')
    const denied = reactionTo(lies[0]!, 0, `It is ${fact.right}.`)
    equal(denied.sign, -1)
    ok(holds(denied.words, fact.lie))
    equal(reactionTo(lies[0]!, 0, `It is ${fact.lie}.`).sign, 1)
  }
  equal(liedAbout(scenario('steady'), 7), null)
})

test('a value is held as a word of its own', () => {
  ok(holds('The sum is 14.', '14'))
  ok(holds('lyon', 'Lyon'))
  ok(!holds('114', '14'))
  ok(!holds('3.14', '14'))
  ok(!holds('Lyons', 'Lyon'))
})
