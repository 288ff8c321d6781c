/** How many small things make up some larger ones: days in weeks, legs of spiders. */
import { integer, other, pick } from '../random.ts'
import type { Draft, Family } from './family.ts'
import type { Material } from '../style.ts'

type Unit = { one: string; many: string; parts: string; per: number; max: number; span: boolean }
const UNITS: readonly Unit[] = [
  { one: 'week', many: 'weeks', parts: 'days', per: 7, max: 10, span: true },
  { one: 'year', many: 'years', parts: 'months', per: 12, max: 10, span: true },
  { one: 'day', many: 'days', parts: 'hours', per: 24, max: 5, span: true },
  { one: 'centimetre', many: 'centimetres', parts: 'millimetres', per: 10, max: 10, span: true },
  { one: 'decade', many: 'decades', parts: 'years', per: 10, max: 10, span: true },
  { one: 'dozen', many: 'dozen', parts: 'eggs', per: 12, max: 10, span: true },
  { one: 'spider', many: 'spiders', parts: 'legs', per: 8, max: 10, span: false },
  { one: 'cat', many: 'cats', parts: 'legs', per: 4, max: 10, span: false },
  { one: 'ant', many: 'ants', parts: 'legs', per: 6, max: 10, span: false },
  { one: 'triangle', many: 'triangles', parts: 'sides', per: 3, max: 10, span: false },
  { one: 'car', many: 'cars', parts: 'wheels', per: 4, max: 10, span: false },
  { one: 'hand', many: 'hands', parts: 'fingers', per: 5, max: 10, span: false },
]

const asks = ({ many, parts, span }: Unit, n: number): string[] =>
  span
    ? [
        `How many ${parts} are in ${n} ${many}?`,
        `How many ${parts} are there in ${n} ${many}?`,
        `Convert ${n} ${many} to ${parts}.`,
        `What is ${n} ${many} in ${parts}?`,
        `${n} ${many} make how many ${parts}?`,
      ]
    : [
        `How many ${parts} do ${n} ${many} have?`,
        `${n} ${many} have how many ${parts}?`,
        `Count the ${parts} of ${n} ${many}.`,
        `How many ${parts} are on ${n} ${many}?`,
        `What number of ${parts} do ${n} ${many} have?`,
      ]

const tell = ({ one, many, parts, per }: Unit, n: number, key: number): Material => ({
  key: String(key),
  sentences: [`${n} ${many} have {} ${parts}.`, `That makes {} ${parts}.`, `The answer is {} ${parts}.`],
  details: [
    `This is a question about ${parts}.`,
    `One ${one} has ${per} ${parts}.`,
    `We have ${n} ${many}, so we multiply ${per} by ${n}.`,
  ],
  last: `That makes {} ${parts} in all.`,
  steps: [`One ${one} has ${per} ${parts}.`, `Multiply by ${n}.`, 'That makes {}.'],
  gist: `Multiply ${per} by ${n}.`,
})

export const unit: Family = {
  name: 'unit',
  weight: 2.4,
  draft: (random): Draft => {
    const kind = pick(random, UNITS)
    const n = integer(random, 2, kind.max)
    const result = n * kind.per
    const miss = other(random, Math.max(2, result - 12), result + 12, [result, n, kind.per])
    return {
      question: pick(random, asks(kind, n)),
      expect: { kind: 'number', value: result, given: [n, kind.per] },
      right: tell(kind, n, result),
      wrong: tell(kind, n, miss),
    }
  },
}
