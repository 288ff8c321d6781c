/** Sums, differences and products of small numbers. The result is never one of the operands. */
import { integer, other, pick } from '../random.ts'
import type { Random } from '../random.ts'
import type { Material } from '../style.ts'
import type { Draft, Family } from './family.ts'

type Operation = {
  name: string
  asks: (a: number, b: number) => string[]
  tell: (a: number, b: number, key: number) => Material
}

const plus: Operation = {
  name: 'add',
  asks: (a, b) => [
    `What is ${a} plus ${b}?`,
    `What is ${a} + ${b}?`,
    `Add ${a} and ${b}.`,
    `How much is ${a} plus ${b}?`,
    `Work out ${a} + ${b}.`,
  ],
  tell: (a, b, key) => ({
    key: String(key),
    sentences: [`${a} plus ${b} is {}.`, `The sum of ${a} and ${b} is {}.`, 'The answer is {}.'],
    details: [
      'This is a question about adding two numbers.',
      `We start with ${a} and then add ${b}.`,
      `${a} plus ${b} makes ${key}.`,
    ],
    last: 'So the answer is {}.',
    steps: [`Start with ${a}.`, `Add ${b}.`, 'The answer is {}.'],
    gist: `Add ${a} and ${b}.`,
  }),
}

const minus: Operation = {
  name: 'sub',
  asks: (a, b) => [
    `What is ${a} minus ${b}?`,
    `What is ${a} - ${b}?`,
    `Subtract ${b} from ${a}.`,
    `How much is ${a} minus ${b}?`,
    `Work out ${a} - ${b}.`,
  ],
  tell: (a, b, key) => ({
    key: String(key),
    sentences: [`${a} minus ${b} is {}.`, `Taking ${b} from ${a} leaves {}.`, 'The answer is {}.'],
    details: [
      'This is a question about taking one number from another.',
      `We start with ${a} and then take away ${b}.`,
      `${a} minus ${b} leaves ${key}.`,
    ],
    last: 'So the answer is {}.',
    steps: [`Start with ${a}.`, `Take away ${b}.`, 'The answer is {}.'],
    gist: `Take ${b} from ${a}.`,
  }),
}

const times: Operation = {
  name: 'mul',
  asks: (a, b) => [
    `What is ${a} times ${b}?`,
    `What is ${a} x ${b}?`,
    `Multiply ${a} by ${b}.`,
    `How much is ${a} times ${b}?`,
    `Work out ${a} x ${b}.`,
  ],
  tell: (a, b, key) => ({
    key: String(key),
    sentences: [`${a} times ${b} is {}.`, `The product of ${a} and ${b} is {}.`, 'The answer is {}.'],
    details: [
      'This is a question about multiplying two numbers.',
      `We take the number ${b} and count it ${a} times.`,
      `${a} times ${b} makes ${key}.`,
    ],
    last: 'So the answer is {}.',
    steps: [`Take ${a}.`, `Multiply by ${b}.`, 'The answer is {}.'],
    gist: `Multiply ${a} by ${b}.`,
  }),
}

function draft(random: Random, operation: Operation, a: number, b: number, result: number): Draft {
  const miss = other(random, Math.max(1, result - 9), result + 9, [result, a, b])
  return {
    question: pick(random, operation.asks(a, b)),
    expect: { kind: 'number', value: result, given: [a, b] },
    right: operation.tell(a, b, result),
    wrong: operation.tell(a, b, miss),
  }
}

export const add: Family = {
  name: 'add',
  weight: 2,
  draft: (random) => {
    const a = integer(random, 1, 15),
      b = integer(random, 1, 15)
    return draft(random, plus, a, b, a + b)
  },
}

export const sub: Family = {
  name: 'sub',
  weight: 2,
  draft: (random) => {
    const b = integer(random, 1, 12)
    const a = b + other(random, 1, 12, [b])
    return draft(random, minus, a, b, a - b)
  },
}

export const mul: Family = {
  name: 'mul',
  weight: 2.4,
  draft: (random) => {
    const a = integer(random, 2, 10),
      b = integer(random, 2, 10)
    return draft(random, times, a, b, a * b)
  },
}
