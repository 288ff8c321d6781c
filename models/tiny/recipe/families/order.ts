/** Sorting three numbers, the larger or smaller of two, what comes next or before. */
import { chance, integer, other, pick, sample } from '../random.ts'
import type { Material } from '../style.ts'
import { word } from './family.ts'
import type { Draft, Family } from './family.ts'

const NUMBERS = Array.from({ length: 40 }, (_, i) => i + 1)

function sorted(low: number, middle: number, high: number): Material {
  const key = `${low}, ${middle}, ${high}`
  return {
    key,
    sentences: ['In order they are {}.', 'From smallest to largest: {}.', 'The right order is {}.'],
    details: [
      'We put three numbers in order, from smallest to largest.',
      `The smallest is ${low} and the largest is ${high}.`,
      `That leaves ${middle} for the middle.`,
    ],
    last: 'In order they are {}.',
    steps: [String(low), String(middle), String(high)],
    gist: null,
  }
}

export const sort: Family = {
  name: 'sort',
  weight: 2,
  draft: (random): Draft => {
    const [a, b, c] = sample(random, NUMBERS, 3) as [number, number, number]
    const [low, middle, high] = [a, b, c].sort((x, y) => x - y) as [number, number, number]
    const wrong = pick(random, [sorted(middle, low, high), sorted(low, high, middle), sorted(high, middle, low)])
    return {
      question: pick(random, [
        `Sort ${a}, ${b} and ${c}.`,
        `Put ${a}, ${b} and ${c} in order.`,
        `Order the numbers ${a}, ${b} and ${c}.`,
        `Arrange ${a}, ${b} and ${c} from smallest to largest.`,
      ]),
      expect: { kind: 'sequence', value: [low, middle, high] },
      right: sorted(low, middle, high),
      wrong,
    }
  },
}

const chosen = (how: string, a: number, b: number, key: number): Material => ({
  key: String(key),
  sentences: [`The ${how} number is {}.`, `Of ${a} and ${b} the ${how} is {}.`, 'The answer is {}.'],
  details: [
    'This is a question about comparing two numbers.',
    `We look at ${a} and at ${b}.`,
    `We want to know which one is ${how}.`,
  ],
  last: `The ${how} number is {}.`,
  steps: [`Compare ${a} and ${b}.`, `The ${how} one is {}.`],
  gist: `Compare ${a} and ${b}.`,
})

export const compare: Family = {
  name: 'compare',
  weight: 1,
  draft: (random): Draft => {
    const [a, b] = sample(random, NUMBERS, 2) as [number, number]
    const large = chance(random, 0.5)
    const how = large ? 'larger' : 'smaller'
    const key = large ? Math.max(a, b) : Math.min(a, b)
    return {
      question: pick(random, [
        `Which is ${how}, ${a} or ${b}?`,
        `Which number is ${how}, ${a} or ${b}?`,
        `Is ${a} or ${b} ${how}?`,
        `Tell me which is ${how}: ${a} or ${b}.`,
      ]),
      expect: { kind: 'number', value: key, given: [a, b] },
      right: chosen(how, a, b, key),
      wrong: chosen(how, a, b, a + b - key),
    }
  },
}

const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const
export { DAYS }

const step = (sort: string, side: string, from: string, key: string): Material => ({
  key,
  sentences: [
    `The ${sort} ${side} ${from} is {}.`,
    `It is {}.`,
    `${from} is ${side === 'after' ? 'followed' : 'preceded'} by {}.`,
  ],
  details: [
    `This is a question about the order of ${sort}s.`,
    `We start from ${from}.`,
    `We look for the ${sort} that comes right ${side} it.`,
  ],
  last: `The ${sort} ${side} ${from} is {}.`,
  steps: [`Start from ${from}.`, `Right ${side} it comes {}.`],
  gist: `Start from ${from}.`,
})

export const next: Family = {
  name: 'next',
  weight: 1.7,
  draft: (random): Draft => {
    const after = chance(random, 0.5)
    const side = after ? 'after' : 'before'
    const sort = pick(random, ['day', 'month', 'month', 'number', 'number'] as const)
    const ask = (from: string): string =>
      pick(random, [
        `What ${sort} comes ${side} ${from}?`,
        `Which ${sort} comes ${side} ${from}?`,
        `Which ${sort} is right ${side} ${from}?`,
        `Name the ${sort} ${side} ${from}.`,
        `Tell me the ${sort} that comes ${side} ${from}.`,
      ])
    if (sort === 'number') {
      const from = integer(random, 2, 40)
      const key = after ? from + 1 : from - 1
      const miss = other(random, Math.max(1, key - 4), key + 4, [key, from])
      return {
        question: ask(String(from)),
        expect: { kind: 'number', value: key, given: [from] },
        right: step(sort, side, String(from), String(key)),
        wrong: step(sort, side, String(from), String(miss)),
      }
    }
    const ring: readonly string[] = sort === 'day' ? DAYS : MONTHS
    const i = integer(random, 0, ring.length - 1)
    const from = ring[i]!
    const key = ring[(i + (after ? 1 : -1) + ring.length) % ring.length]!
    const miss = pick(
      random,
      ring.filter((w) => w !== key && w !== from),
    )
    return {
      question: ask(from),
      expect: word(key, ring, [from]),
      right: step(sort, side, from, key),
      wrong: step(sort, side, from, miss),
    }
  },
}
