/** Who talks to a model of a size: scenarios, wishes, questions, and the lengths that suit it. */
import type { Expect } from '../../models/tiny/recipe/probe.ts'
import { isCorrect, questions } from '../../models/tiny/recipe/questions.ts'
import { KNOWN, questionsOf, type Family } from './general/questions.ts'
import { GENERAL_SCENARIOS } from './general/scenarios.ts'
import { GENERAL_THANKS, GENERAL_WISHES } from './general/wishes.ts'
import { SCENARIOS, SUMS, type Person, type Scenario } from './scenarios.ts'
import type { Talk } from './sessions.ts'
import { THANKS, TINY_WISHES, type Wish, type WishName } from './wishes.ts'

/** `expect`: what the right answer holds; absent: there is not one right answer. */
export type Question = { question: string; family: string; expect?: Expect }

export const isRight = ({ question, family, expect }: Question, answer: string): boolean =>
  expect === undefined || isCorrect({ question, family, expect }, answer)

export type Population = {
  name: 'tiny' | 'general'
  scenarios: readonly Scenario[]
  wishes: Readonly<Partial<Record<WishName, Wish>>>
  thanks: readonly string[]
  /** Families of the first kind of questions (`Taste`), and how a complaint says for which kind its wish is. */
  firstFamilies: readonly string[]
  conditions: { first: string; other: string }
  /** `count` different questions; those of the two splits are apart. The same arguments give the same questions. */
  questions(person: Person, split: 'asked' | 'measured', seed: number, count: number): Question[]
  /** Questions asked greedily before and after, each of one of the people; empty where the measured questions have right answers. */
  known: readonly { question: string; answer: RegExp }[]
  talk: Talk
}

export const TINY: Population = {
  name: 'tiny',
  scenarios: SCENARIOS,
  wishes: TINY_WISHES,
  thanks: THANKS,
  firstFamilies: SUMS,
  conditions: { first: 'For sums: ', other: 'For other questions: ' },
  questions: (_person, split, seed, count) =>
    questions({ heldOut: true, split: split === 'asked' ? 'demo' : 'evaluation', seed, count }),
  known: [],
  talk: { temperature: 0.7, maxTokens: 96 },
}

/** A general model of few parameters is incoherent at temperature 1; 64 tokens are some 45 words. */
export const GENERAL: Population = {
  name: 'general',
  scenarios: GENERAL_SCENARIOS,
  wishes: GENERAL_WISHES,
  thanks: GENERAL_THANKS,
  firstFamilies: ['thing'] satisfies Family[],
  conditions: { first: 'When I ask what something is: ', other: 'When I ask how to do something: ' },
  questions: ({ asks = [] }, split, seed, count) => questionsOf(asks as readonly Family[], split, seed, count),
  known: KNOWN,
  talk: { temperature: 0.7, maxTokens: 64 },
}
