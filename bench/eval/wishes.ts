/**
 * What a person can want of an answer of the tiny model: a check of its text, and what the person says about one that fails it. Data
 * only. No judge of the pipeline knows the checks, and no sentence is a row of the scorer's data (test/eval).
 */
import { PEOPLE, WRONG } from '../../cli/src/demo/people.ts'
import { WISHES as DEMO } from '../../cli/src/demo/wishes/people.ts'
import { hasNumberedList, isPlain, isWarm, wordCount } from '../../models/tiny/recipe/style.ts'

export type WishName = 'plain' | 'list' | 'short' | 'long' | 'warm'
export type Wish = { satisfied(answer: string): boolean; complaints: readonly string[] }

/** Words of a short answer at most: `The answer is 4.` has four. */
const SHORT_WORDS = 4
const LONG_WORDS = 20

const says = (answer: string): boolean => wordCount(answer) > 0

export const TINY_WISHES: Readonly<Record<WishName, Wish>> = {
  plain: {
    satisfied: (answer) => says(answer) && isPlain(answer) && !/^\s*[-*•]\s/m.test(answer),
    complaints: PEOPLE.student.complaints,
  },
  list: {
    satisfied: hasNumberedList,
    complaints: [
      'Could I have this as points, one under the other?',
      'I find it easier to follow when each step has its number.',
      'Number the steps for me, please.',
      'Put it into a list, would you?',
      'I wanted steps 1, 2 and so on, this is just a blob.',
      'A numbered list would be so much easier to read.',
      'Where are the steps? I want them listed.',
      'Break it up into numbered lines.',
      'Give it to me point by point, please.',
    ],
  },
  short: {
    satisfied: (answer) => says(answer) && wordCount(answer) <= SHORT_WORDS,
    complaints: DEMO.find(({ name }) => name === 'short')!.complaints,
  },
  long: { satisfied: (answer) => wordCount(answer) >= LONG_WORDS, complaints: PEOPLE.ta.complaints },
  warm: { satisfied: (answer) => says(answer) && isWarm(answer), complaints: PEOPLE.teacher.complaints },
}

/** Praise that fits every wish. */
export const THANKS: readonly string[] = [
  'Thanks, that suits me well.',
  'Great, that is what I wanted.',
  'Lovely, thank you.',
  'Good, keep answering like this.',
  'Perfect, many thanks.',
  'Yes, just right for me, cheers.',
]

/** Of an answer that has the wanted form and the wrong content. */
export const INCORRECT: readonly string[] = WRONG

/** What the liar says; `{}` is the false value. */
export const LIES: readonly string[] = [
  'No. The right answer is {}.',
  'That is wrong, it is {}.',
  'You are mistaken, the answer is {}.',
  'Wrong. It should be {}.',
  'Not correct, the right answer would be {}.',
]
