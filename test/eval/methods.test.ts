import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { METHODS } from '../../bench/eval/methods/index.ts'
import { rulesOf } from '../../bench/eval/methods/skills.ts'
import type { Told } from '../../bench/eval/methods/method.ts'

const method = (name: string) => METHODS.find((one) => one.name === name)!
const told = (person: number, words: string, hint: string): Told => ({ person, words, hint })

test('the methods: three without learning, three losses with one adapter and with one for each person', () => {
  deepEqual(
    METHODS.map(({ name, loss, separate }) => `${name} ${loss} ${separate}`),
    [
      'none null false',
      'memory null false',
      'skills null false',
      'binary binary false',
      'binary-separate binary true',
      'opd opd false',
      'opd-separate opd true',
      'hybrid hybrid false',
      'hybrid-separate hybrid true',
    ],
  )
})

test('memory quotes the last three wishes of the person alone', () => {
  const list = [
    told(0, 'one', 'Keep it short.'),
    told(1, 'of another', 'Keep it short.'),
    told(0, 'two', 'Keep it short.'),
    told(0, 'three', 'Keep it short.'),
    told(0, 'four', 'Keep it short.'),
  ]
  equal(method('memory').note(list, 0), 'What this person has asked for before: "two" "three" "four"')
  equal(method('memory').note(list, 2), null)
})

test('skills are the most frequent wishes of all people, each in its last wording, and hold no two opposites', () => {
  const list = [
    told(0, 'a', 'Keep it short.'),
    told(0, 'b', 'Answer briefly.'),
    told(1, 'c', 'Explain in detail.'),
    told(1, 'd', 'Answer as a list.'),
    told(1, 'e', 'Sound friendly.'),
    told(1, 'f', 'Sound friendly.'),
    told(1, 'g', 'Be kind and encouraging.'),
  ]
  deepEqual(rulesOf(list), ['Be kind and encouraging.', 'Answer briefly.', 'Answer as a list.'])
  equal(method('skills').note(list, 5), 'Be kind and encouraging. Answer briefly. Answer as a list.')
  // Equally many of each: neither.
  deepEqual(rulesOf([list[0]!, list[2]!]), [])
  equal(method('skills').note([], 0), null)
})

test('skills forget wishes beyond the last 48 complaints', () => {
  const list = [
    ...Array.from({ length: 60 }, () => told(0, 'a', 'Keep it short.')),
    ...Array.from({ length: 48 }, () => told(0, 'b', 'Explain in detail.')),
  ]
  deepEqual(rulesOf(list), ['Explain in detail.'])
})
