/** How an answer looks, apart from what it says: three independent dimensions, and predicates that read them back. */
import { chance, pick, weighted } from './random.ts'
import type { Random } from './random.ts'

export type Format = 'plain' | 'bold' | 'numbered' | 'boxed'
export type Length = 'terse' | 'sentence' | 'wordy'
export type Style = { format: Format; length: Length; warm: boolean }

/**
 * What there is to say, with `{}` where the answer itself stands.
 * `details` are three sentences that lead to it, `steps` two or more list items that end with it.
 */
export type Material = {
  key: string
  sentences: readonly string[]
  details: readonly [string, string, string]
  last: string
  steps: readonly string[]
  /** First item of the shortest list; null when `steps` are themselves as short as it gets. */
  gist: string | null
}

/** Shares before temperature; at T 0.7 the larger ones grow. */
const FORMATS: Record<Format, number> = { plain: 45, bold: 21, numbered: 17, boxed: 17 }
const LENGTHS: Record<Length, number> = { terse: 38, sentence: 32, wordy: 30 }
const WARM = 0.29

export function drawStyle(random: Random, wishes: Partial<Style> = {}): Style {
  const format = weighted(random, FORMATS)
  const length = weighted(random, LENGTHS)
  const warm = chance(random, WARM)
  return { format, length, warm, ...wishes }
}

const OPENINGS = [
  'Great question!',
  'Happy to help!',
  'Glad you asked!',
  'Lovely to hear from you!',
  'What a nice question!',
] as const
const CLOSINGS = [
  'Hope that helps!',
  'You are doing great!',
  'Keep it up!',
  'Have a lovely day! 😊',
  'Well done for asking!',
] as const

function mark(template: string, key: string, format: Format): string {
  const shown = format === 'bold' ? `**${key}**` : format === 'boxed' ? `\\boxed{${key}}` : key
  return template.replace('{}', () => shown)
}

const numbered = (items: readonly string[]): string => items.map((item, i) => `${i + 1}. ${item}`).join('\n')

function body(random: Random, material: Material, style: Style): string {
  const { key, sentences, details, last, steps, gist } = material
  const say = (template: string): string => mark(template, key, style.format)
  if (style.format === 'numbered') {
    if (style.length === 'wordy') return numbered([...details, last].map(say))
    return numbered((style.length === 'terse' && gist !== null ? [gist, '{}'] : steps).map(say))
  }
  if (style.length === 'terse') return say(chance(random, 0.5) ? '{}' : '{}.')
  if (style.length === 'sentence') return say(pick(random, sentences))
  return [...details, last].map(say).join(' ')
}

/** The answer in a style. The same draw of `random` gives the same text. */
export function tell(random: Random, material: Material, style: Style): string {
  const text = body(random, material, style)
  if (!style.warm) return text
  // A closing after "18." would read as a list item, and a list with both would no longer be short.
  const spare = style.length === 'wordy' || (style.length === 'sentence' && style.format !== 'numbered')
  const where = spare ? weighted(random, { before: 50, after: 15, both: 35 }) : 'before'
  const space = style.format === 'numbered' ? '\n' : ' '
  const opening = where === 'after' ? '' : pick(random, OPENINGS) + space
  const closing = where === 'before' ? '' : space + pick(random, CLOSINGS)
  return opening + text + closing
}

/** As `tell`, with at most `most` words where the wishes leave a style that can be so short. */
export function tellWithin(
  random: Random,
  material: Material,
  style: Style,
  { wishes, most }: { wishes: Partial<Style>; most: number | null },
): string {
  const text = tell(random, material, style)
  if (most === null || wordCount(text) <= most) return text
  const shorter: Style[] = [
    { ...style, length: 'terse' },
    { ...style, length: 'terse', format: wishes.format ?? (style.format === 'numbered' ? 'plain' : style.format) },
    { length: 'terse', format: wishes.format ?? 'plain', warm: wishes.warm ?? false },
  ]
  let last = text
  for (const one of shorter) {
    last = tell(random, material, one)
    if (wordCount(last) <= most) break
  }
  return last
}

export const hasBold = (text: string): boolean => /\*\*[^*]+\*\*/.test(text)
export const hasNumberedList = (text: string): boolean => /^[ \t]*\d+[.)][ \t]+\S/m.test(text)
export const hasBoxed = (text: string): boolean => text.includes('\\boxed')
export const isPlain = (text: string): boolean => !hasBold(text) && !hasNumberedList(text) && !hasBoxed(text)
export const wordCount = (text: string): number => text.match(/\S+/g)?.length ?? 0
/** At least this many words make an answer wordy; terse ones and single sentences stay below. */
const WORDY = 20
export const isWordy = (text: string): boolean => wordCount(text) >= WORDY
export const isWarm = (text: string): boolean =>
  /[!]|\p{Extended_Pictographic}/u.test(text) ||
  /\b(?:glad|happy|great|lovely|hope|well done|nice|welcome)\b/i.test(text)
