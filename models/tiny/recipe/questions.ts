/**
 * Which questions the model may see while it is made, and which are kept for measuring it. By crc32 of the
 * question's text a sixth is held out; the held-out ones fall into three disjoint thirds.
 */
import { crc32 } from 'node:zlib'
import { FAMILIES } from './families/index.ts'
import type { Draft, Family, Question } from './families/index.ts'
import { checkProbe } from './probe.ts'
import { seeded, weighted } from './random.ts'
import type { Random } from './random.ts'

/** `train`: in the corpus. `probe`: the publisher's gate. `evaluation`: content figures. `demo`: asked by simulated users. */
export type Split = 'train' | 'probe' | 'evaluation' | 'demo'
const HELD_OUT = ['probe', 'evaluation', 'demo'] as const

export function splitOf(question: string): Split {
  const crc = crc32(question)
  return crc % 6 === 0 ? HELD_OUT[Math.floor(crc / 6) % 3]! : 'train'
}

const WEIGHTS: Readonly<Record<string, number>> = Object.fromEntries(FAMILIES.map((f) => [f.name, f.weight]))
const BY_NAME = new Map(FAMILIES.map((f) => [f.name, f]))
const ATTEMPTS = 20_000

/** A draft whose question is in `split`. */
export function draftIn(random: Random, split: Split, family?: Family): Draft & { family: string } {
  for (let i = 0; i < ATTEMPTS; i++) {
    const from = family ?? BY_NAME.get(weighted(random, WEIGHTS))!
    const draft = from.draft(random)
    if (splitOf(draft.question) === split) return { ...draft, family: from.name }
  }
  throw new RangeError(`no question of split ${split} in ${ATTEMPTS} draws`)
}

/**
 * `count` different questions of a split (`heldOut: false` is `train`; `heldOut: true` without a split is
 * `evaluation`), families in turn as long as they have new ones. The same arguments give the same questions.
 */
export function questions(options: {
  heldOut: boolean
  split?: Exclude<Split, 'train'>
  seed: number
  count: number
}): Question[] {
  const split = options.heldOut ? (options.split ?? 'evaluation') : 'train'
  const random = seeded(options.seed)
  const seen = new Set<string>()
  const found: Question[] = []
  let live = [...FAMILIES]
  while (found.length < options.count && live.length > 0) {
    const exhausted = new Set<Family>()
    for (const family of live) {
      if (found.length === options.count) break
      const question = fresh(random, split, family, seen)
      if (question === null) exhausted.add(family)
      else found.push(question)
    }
    live = live.filter((family) => !exhausted.has(family))
  }
  if (found.length < options.count) throw new RangeError(`split ${split} has only ${found.length} questions`)
  return found
}

function fresh(random: Random, split: Split, family: Family, seen: Set<string>): Question | null {
  for (let i = 0; i < 4_000; i++) {
    const { question, expect } = family.draft(random)
    if (splitOf(question) !== split || seen.has(question)) continue
    seen.add(question)
    return { question, family: family.name, expect }
  }
  return null
}

/** Strict: the right answer, and nothing of its sort beside it. */
export const isCorrect = (question: Question, answer: string): boolean => checkProbe(question, answer)
