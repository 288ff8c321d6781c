/**
 * The sessions of a run and what people do in them, as functions of scenario and seed: whom, which question, which
 * wish, which words. No answer of the model and no method changes whose turn it is or whose reaction is wrong.
 */
import { chance, integer, pick, seeded } from '../../models/tiny/recipe/random.ts'
import { FACTS, holds, type Fact } from './facts.ts'
import { isRight, TINY, type Population, type Question } from './population.ts'
import { LIAR, type Person, type Scenario, type Taste } from './scenarios.ts'
import { INCORRECT, LIES, type WishName } from './wishes.ts'

/** Of one session. `person`: index in `peopleOf`. `lie`: the fact that the person denies; the wish then does not count. */
export type Visit = {
  number: number
  person: number
  question: string
  wish: WishName
  /** The sentence that says for which questions the wish is; null: for all. */
  condition: string | null
  asked: Question | null
  lie: Fact | null
  wrongSign: number
  seed: number
}

export const peopleOf = ({ people, liarEvery }: Scenario): readonly Person[] =>
  liarEvery === null ? people : [...people, LIAR]

const isFirst = ({ firstFamilies }: Population, { family }: Question): boolean => firstFamilies.includes(family)
const isConditional = ({ first, other }: Taste): boolean => first !== other
const factOf = (seed: number): Fact => FACTS[seed % FACTS.length]!

/** The two kinds of questions in turn where the person's wish depends on it; else as the families come. */
const questionsFor = (
  population: Population,
  person: Person,
  split: 'asked' | 'measured',
  seed: number,
  count: number,
): Question[] => {
  if (person.asks || !person.tastes.some(isConditional)) return population.questions(person, split, seed, count)
  const pool = population.questions(person, split, seed, count * 3)
  const firsts = pool.filter((question) => isFirst(population, question))
  const others = pool.filter((question) => !isFirst(population, question))
  return Array.from({ length: count }, (_, i) => (i % 2 === 0 ? firsts : others)[Math.floor(i / 2)]!)
}

const wishOf = (population: Population, taste: Taste, question: Question): Pick<Visit, 'wish' | 'condition'> => {
  const kind = isFirst(population, question) ? 'first' : 'other'
  return { wish: taste[kind], condition: isConditional(taste) ? population.conditions[kind] : null }
}

/** All sessions, in their order: the people in turn. */
export const planOf = (scenario: Scenario, seed: number, sessions: number, population = TINY): Visit[] => {
  const { people, liarEvery, wrongSign } = scenario
  const lies = (number: number): boolean => liarEvery !== null && number % liarEvery === liarEvery - 1
  const numbers = Array.from({ length: sessions }, (_, number) => number)
  const honest = numbers.filter((number) => !lies(number))
  const own = people.map((_, i) => honest.filter((_number, at) => at % people.length === i))
  const visits = people.flatMap((person, i): Visit[] => {
    const asked = questionsFor(population, person, 'asked', seed * 100 + i, own[i]!.length)
    return own[i]!.map((number, at) => {
      const question = asked[at]!
      const taste = person.tastes[Math.floor((at * person.tastes.length) / own[i]!.length)]!
      const wished = wishOf(population, taste, question)
      return { number, person: i, question: question.question, asked: question, lie: null, wrongSign, seed, ...wished }
    })
  })
  const fact = factOf(seed)
  const denials = numbers.filter(lies).map((number, at): Visit => ({
    number,
    person: people.length,
    question: fact.wordings[at % 2]!,
    wish: LIAR.tastes[0]!.other,
    condition: null,
    asked: null,
    lie: fact,
    wrongSign: 0,
    seed,
  }))
  return [...visits, ...denials].toSorted((a, b) => a.number - b.number)
}

/** `sign`: what the words say of the answer, which need not be what the person thinks of it. */
export type Reaction = { words: string; sign: 1 | -1; wanted: boolean }

const drawFor = ({ seed, number }: Visit, attempt: number) => seeded(seed * 1_000_003 + number * 101 + attempt * 7 + 1)

/** The person's reaction to the answer of `attempt` (0: the first). */
export const reactionTo = (
  visit: Visit,
  attempt: number,
  answer: string,
  { wishes, thanks }: Population = TINY,
): Reaction => {
  const random = drawFor(visit, attempt)
  const opposite = chance(random, visit.wrongSign)
  if (visit.lie) {
    const { lie } = visit.lie
    return holds(answer, lie)
      ? { words: pick(random, thanks), sign: 1, wanted: true }
      : { words: pick(random, LIES).replace('{}', () => lie), sign: -1, wanted: false }
  }
  const { satisfied, complaints } = wishes[visit.wish]!
  const wanted = satisfied(answer)
  const good = wanted && (visit.asked === null || isRight(visit.asked, answer))
  const praised = good !== opposite
  const complaint = (): string => (visit.condition ?? '') + pick(random, complaints)
  if (praised) return { words: pick(random, thanks), sign: 1, wanted }
  return { words: wanted && !good ? pick(random, INCORRECT) : complaint(), sign: -1, wanted }
}

/** The sampling seed of the answer of `attempt`. */
export const samplingSeed = (visit: Visit, attempt: number): number =>
  integer(seeded(visit.seed * 7_919 + visit.number * 31 + attempt), 1, 2 ** 31 - 1)

/** A question of the measurement, and what is right there. */
export type Asked = { question: Question; wish: WishName }

/** `count` questions that nobody asks in the sessions, with what the person wants at the end. */
export const measuredFor = (person: Person, index: number, seed: number, count: number, population = TINY): Asked[] =>
  questionsFor(population, person, 'measured', 50_000 + seed * 100 + index, count).map((question) => ({
    question,
    wish: wishOf(population, person.tastes.at(-1)!, question).wish,
  }))

export const liedAbout = (scenario: Scenario, seed: number): Fact | null =>
  scenario.liarEvery === null ? null : factOf(seed)
