import { add, mul, sub } from './arithmetic.ts'
import { animal, capital, colour, opposite } from './knowledge.ts'
import { list } from './lists.ts'
import { compare, next, sort } from './order.ts'
import { event, have, trip } from './stories.ts'
import { unit } from './units.ts'
import type { Family } from './family.ts'

/** Every family with checkable answers. */
export const FAMILIES: readonly Family[] = [
  add,
  sub,
  mul,
  unit,
  sort,
  compare,
  next,
  list,
  capital,
  opposite,
  animal,
  colour,
  have,
  trip,
  event,
]
export type { Draft, Family, Question } from './family.ts'
