/**
 * What people asked for of the length of answers: the hints of a batch that say longer or shorter. Without such a wish
 * a length that grows or shrinks is what raters like and nobody asked for, and the gate holds it to the length that was
 * asked for last, or else to the base's.
 */
import { hintOf, readWritten, type BatchItem } from '@instar/events'

const LONGER =
  /\b(?:longer|(?:full|more|greater|great|in) detail|detailed|full (?:explanation|answer)|(?:several|more|full|multiple) (?:sentences|words|paragraphs)|at least \S+ (?:words|sentences)|elaborat\w+|at length|in[- ]depth|thorough(?:ly)?|ausführlich\w*|länger\w*|détaillé\w*|plus long\w*|detallad\w+|más larg\w+|dettagliat\w+|più lung\w+)(?!\p{L})|更长|更詳細|更详细|詳しく/iu
const SHORTER =
  /\b(?:brief(?:ly)?|shorten|shorter|short(?! sentences\b)|concise(?:ly)?|succinct(?:ly)?|terse(?:ly)?|(?:few|fewer) words|in (?:one|a single|one or two|two) sentences?|(?:at most|no more than|up to|within) \S+ (?:words|sentences)|kürzer\w*|kurz\w*|knapp\w*|bref|brièvement|plus court\w*|brevemente|breve|más cort\w+|più cort\w+)(?!\p{L})|简短|簡潔|短く/iu

/** 1: longer, -1: shorter; 0: neither, or both. */
export const lengthWish = (hint: string): 1 | -1 | 0 => {
  const [longer, shorter] = [LONGER.test(hint), SHORTER.test(hint)]
  return longer === shorter ? 0 : longer ? 1 : -1
}

/** Turns with a wish for longer answers less those for shorter ones, as a share of the batch: −1…1. */
const shareIn = (items: readonly BatchItem[]): number => {
  const wishes = items.map((item): number => {
    const hint = hintOf(item)
    return hint === null ? 0 : lengthWish(readWritten(hint))
  })
  return items.length === 0 ? 0 : wishes.reduce((sum, wish) => sum + wish, 0) / items.length
}

/** Weight of the versions before in the running mean of wishes: a wish that is met is no longer said. */
const DECAY = 0.8

/**
 * `asked`: running mean over the versions of the share of turns with a wish for longer answers, less that for shorter
 * ones. `least`, `most`: mean lengths on the fixed prompts that were asked for, the base's among them; tokens.
 */
export type AskedLength = { asked: number; least: number; most: number }

/**
 * That of the candidate: its own length counts as asked for in the direction in which the running mean reaches `share`.
 */
export const askedWith = (
  parent: AskedLength,
  items: readonly BatchItem[],
  length: number,
  share: number,
): AskedLength => {
  const asked = DECAY * parent.asked + (1 - DECAY) * shareIn(items)
  return {
    asked,
    least: asked <= -share ? Math.min(parent.least, length) : parent.least,
    most: asked >= share ? Math.max(parent.most, length) : parent.most,
  }
}
