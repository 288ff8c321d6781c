/**
 * Wishes about style, as a user, a judge or an operator may put them: each moves one dimension and leaves the others
 * as they are. Their wordings are composed (hint-parts.ts), thousands for each wish, so that the wish is learned and
 * not its words; negations are among them, because people say them.
 */
import { ASIDES, FRAMES, LISTS, PARTS, TAKEN } from './hint-parts.ts'
import type { Parts } from './hint-parts.ts'
import WHOLE from './hint-sentences.json' with { type: 'json' }
import { chance, pick, sample, weighted } from './random.ts'
import type { Random } from './random.ts'
import type { Style } from './style.ts'
import { expand, expansions, from, sentence, variants, wordsOf } from './wording.ts'
import type { Source } from './wording.ts'

export type Wish = 'plain' | 'bold' | 'numbered' | 'boxed' | 'long' | 'short' | 'warm' | 'neutral'
export const WISHES: readonly Wish[] = ['plain', 'bold', 'numbered', 'boxed', 'long', 'short', 'warm', 'neutral']

type Kind = keyof Parts | 'whole'
const KINDS: Readonly<Record<Kind, number>> = { does: 27, things: 17, ways: 16, nots: 9, says: 6, whole: 25 }

const partsOf = (wish: Wish, kind: Kind): readonly string[] => (kind === 'whole' ? WHOLE[wish] : PARTS[wish][kind])
/** Whole sentences stand in no frame. */
const stands = (kind: Kind): kind is 'says' | 'whole' => kind === 'says' || kind === 'whole'

/** Parts of a kind, with those of other kinds where it has none. */
function part(random: Random, source: Source, wish: Wish): { kind: Kind; text: string } {
  for (;;) {
    const kind = weighted(random, KINDS)
    const parts = from(source, partsOf(wish, kind))
    if (parts.length > 0) return { kind, text: expand(random, pick(random, parts), LISTS) }
  }
}

const partOf = (random: Random, source: Source, wish: Wish, kind: Kind): string | null => {
  const parts = from(source, partsOf(wish, kind))
  return parts.length === 0 ? null : expand(random, pick(random, parts), LISTS)
}

const framed = (random: Random, source: Source, kind: Kind, text: string): string =>
  sentence(stands(kind) ? text : pick(random, from(source, FRAMES[kind])).replace('{}', () => text))

const isTaken = (wording: string): boolean => {
  const words = wordsOf(wording)
  return TAKEN.has(words.join(' ')) || words.some((_, i) => TAKEN.has(words.slice(i, i + 4).join(' ')))
}

/** One wish in one sentence. */
export function drawWording(random: Random, wish: Wish, source: Source = 'train'): string {
  for (;;) {
    const { kind, text } = part(random, source, wish)
    const wording = framed(random, source, kind, text)
    if (!isTaken(wording)) return wording
  }
}

/** Every wording of one wish in one sentence. */
export function* everyWording(wish: Wish, source: Source): Generator<string> {
  for (const kind of Object.keys(KINDS) as Kind[]) {
    const frames = stands(kind) ? ['{}'] : [...new Set(from(source, FRAMES[kind]))]
    for (const template of from(source, partsOf(wish, kind)))
      for (const text of expansions(template, LISTS))
        for (const frame of frames) {
          const wording = sentence(frame.replace('{}', () => text))
          if (!isTaken(wording)) yield wording
        }
  }
}

/** How many wordings a wish has in a source. */
export const wordings = (wish: Wish, source: Source): number =>
  (Object.keys(KINDS) as Kind[]).reduce(
    (sum, kind) =>
      sum +
      from(source, partsOf(wish, kind)).reduce((inner, template) => inner + variants(template, LISTS), 0) *
        (stands(kind) ? 1 : from(source, FRAMES[kind]).length),
    0,
  )

/** What a wish fixes. `short` is now and then one sentence. */
export function grant(random: Random, wish: Wish): Partial<Style> {
  switch (wish) {
    case 'plain':
    case 'bold':
    case 'numbered':
    case 'boxed':
      return { format: wish }
    case 'long':
      return { length: 'wordy' }
    case 'short':
      return { length: chance(random, 0.75) ? 'terse' : 'sentence' }
    case 'warm':
      return { warm: true }
    case 'neutral':
      return { warm: false }
  }
}

const DIMENSIONS: readonly (readonly Wish[])[] = [
  ['plain', 'plain', 'plain', 'plain', 'bold', 'bold', 'numbered', 'numbered', 'boxed', 'boxed'],
  ['long', 'short'],
  ['warm', 'neutral'],
]

/** Two wishes in one sentence, or null where their parts do not go together. */
function together(random: Random, source: Source, [a, b]: readonly [Wish, Wish]): string | null {
  const kind = weighted(random, { does: 50, things: 20, ways: 30 })
  const [first, second] = [partOf(random, source, a, kind), partOf(random, source, b, kind)]
  if (first === null || second === null || / and /.test(second)) return null
  const link = pick(random, [
    ' and ',
    ' and ',
    ', and ',
    ' but ',
    ', but ',
    ' and also ',
    ', ',
    ' and at the same time ',
  ])
  const wording = framed(random, source, kind, first + link + second)
  return isTaken(wording) ? null : wording
}

/** `text` is `parts` in their order. `most`: the words that an answer may have at most, where the hint says so. */
export type Hint = { text: string; parts: readonly string[]; wishes: readonly Wish[]; most: number | null }

const NUMBERS: Readonly<Record<string, number>> = { five: 5, six: 6, eight: 8, ten: 10, twelve: 12, fifteen: 15 }

/** The limit that a wording of `short` states. */
export function mostWords(text: string): number | null {
  const found = /(\b(?:fewer than|less than|under|below) )?\b(\d+|five|six|eight|ten|twelve|fifteen) words/i.exec(text)
  if (found === null) return null
  const count = NUMBERS[found[2]!.toLowerCase()] ?? Number(found[2])
  return found[1] === undefined ? count : count - 1
}

/** People type as they like. */
function typed(random: Random, text: string): string {
  if (chance(random, 0.1)) text = text.charAt(0).toLowerCase() + text.slice(1)
  if (chance(random, 0.08)) text = text.toLowerCase()
  if (chance(random, 0.08)) text = text.replace(/\.$/, '')
  else if (chance(random, 0.04)) text = text.replace(/\.$/, '!')
  return text
}

/** One to three wishes of different dimensions (mostly one), in random order. */
export function drawHint(random: Random, source: Source = 'train'): Hint {
  const count = chance(random, 0.7) ? 1 : chance(random, 0.75) ? 2 : 3
  const wishes = sample(random, DIMENSIONS, count).map((dimension) => pick(random, dimension))
  const parts: string[] = []
  const [a, b] = wishes
  const joint = b !== undefined && chance(random, 0.4) ? together(random, source, [a!, b]) : null
  if (joint !== null) parts.push(joint)
  for (const wish of joint === null ? wishes : wishes.slice(2)) {
    parts.push(drawWording(random, wish, source))
    // Said twice, in other words.
    if (chance(random, 0.12)) parts.push(drawWording(random, wish, source))
  }
  if (chance(random, 0.08))
    parts.splice(chance(random, 0.5) ? 0 : parts.length, 0, expand(random, pick(random, from(source, ASIDES)), LISTS))
  const limits = wishes.includes('short') ? parts.map(mostWords).filter((most) => most !== null) : []
  const said = parts.map((text) => typed(random, text))
  return { text: said.join(' '), parts: said, wishes, most: limits.length === 0 ? null : Math.min(...limits) }
}

/** A question with a hint: mostly on the line after it, where the learner puts it, else before it or beside it. */
export function placed(random: Random, question: string, hint: Hint): string {
  const { text, parts } = hint
  const place = weighted(random, { below: 62, after: 14, before: 11, above: 7, around: 6 })
  switch (place) {
    case 'below':
      return `${question}\n${text}`
    case 'after':
      return `${question} ${text}`
    case 'before':
      return `${text} ${question}`
    case 'above':
      return `${text}\n${question}`
    case 'around':
      return parts.length < 2 ? `${text} ${question}` : `${parts[0]!} ${question} ${parts.slice(1).join(' ')}`
  }
}
