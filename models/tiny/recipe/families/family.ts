import type { Expect, Probe } from '../probe.ts'
import type { Random } from '../random.ts'
import type { Material } from '../style.ts'

/** One question with the material for a right answer and for a wrong one that looks like it. */
export type Draft = { question: string; expect: Expect; right: Material; wrong: Material }

/** `weight`: its share of the corpus relative to the other families. */
export type Family = { name: string; weight: number; draft(random: Random): Draft }

export type Question = Probe

export const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** A word that is the answer, the words it could be confused with, and those that the question itself names. */
export const word = (value: string, sort: readonly string[], given: readonly string[] = []): Expect => ({
  kind: 'word',
  value,
  rivals: sort.filter((w) => w !== value),
  given: given.filter((w) => w !== value),
})
