/** The judge that needs no endpoint: a model made from labelled reactions reads what came after an answer. */
import { derivedId } from '@instar/events'
import { hintFor, type WordingSet } from '../hints.ts'
import type { Evidence, Judgement } from '../judgement.ts'
import type { Reaction } from './features.ts'
import { LABELS, readReaction, valueOf, WISHES, wishOf, type ReactionModel, type Reading } from './model.ts'
import { isSingleIdeograph, valueIn } from './value.ts'

export type ReactionSettings = {
  /** The value of an answer after which the person turns to something else; null: no opinion. */
  movedOn: number | null
  /** Default `tiny`. */
  wordings?: WordingSet
}

/** The wordings of `tiny` are not in the id, as before there were others. */
export const reactionsId = (model: ReactionModel, { movedOn, wordings = 'tiny' }: ReactionSettings): string => {
  const { commonWords: _c, rowOf: _r, weights: _w, ...head } = model
  const settings = wordings === 'tiny' ? { movedOn } : { movedOn, wordings }
  return `reactions-${derivedId('reactions', JSON.stringify([head, settings])).slice(0, 12)}`
}

/** What fits with the key of the hint's wording: the turn, or where there is none, its texts. */
const keyOf = ({ turn, request, answer }: Pick<Evidence, 'turn' | 'request' | 'answer'>): string =>
  turn ?? JSON.stringify([request, answer])

const at = (probabilities: Float64Array, label: (typeof LABELS)[number]): number =>
  probabilities[LABELS.indexOf(label)]!

export const judgeReaction = (model: ReactionModel, evidence: Evidence, settings: ReactionSettings): Judgement => {
  const { user = '', tools = '' } = evidence.next ?? {}
  if (user.trim() === '' && tools.trim() === '') return { value: null, note: 'nothing was said', hint: null }
  const { request, answer } = evidence
  const reaction = { request, answer, user, tools }
  const reading = readReaction(model, reaction)
  const [bad, good] = [at(reading.labels, -1), at(reading.labels, 1)]
  const note = `bad ${bad.toFixed(2)}, good ${good.toFixed(2)}`
  const value = valueOf(reading, model.least)
  if (value === -1) {
    const { wish, probability } = wishOf(reading)
    const words = user.trim() === '' ? NO_HINT : worded(model, reaction, reading, keyOf(evidence), settings.wordings)
    return { value, note: `${note}, ${wish} ${probability.toFixed(2)}`, ...words }
  }
  if (value === 1) return { value, note, hint: null }
  if (settings.movedOn !== null && user.trim() !== '' && at(reading.labels, 0) >= model.least.good)
    return { value: settings.movedOn, note: `${note}, moved on`, hint: null }
  return { value: null, note, hint: null }
}

/** A hint, and the value that the words call right, which the hint need not state. */
type Worded = { hint: string | null; claim: string | null }
const NO_HINT: Worded = { hint: null, claim: null }

/** The hint of `readWords` alone. */
export const hintOfWords = (...read: Parameters<typeof readWords>): string | null => readWords(...read).hint

/** What words say should have been done, whatever they say of the answer: for one that is known to have failed. */
export const readWords = (
  model: ReactionModel,
  words: string,
  evidence: Pick<Evidence, 'turn' | 'request' | 'answer'>,
  wordings?: WordingSet,
): Worded => {
  const reaction = { request: evidence.request, answer: evidence.answer, user: words, tools: '' }
  return worded(model, reaction, readReaction(model, reaction), keyOf(evidence), wordings)
}

/**
 * At least this likely, a value that the words name is taken for the one that they call right, also where another wish
 * is likelier: a score that rests on it waits for agreement.
 */
const LEAST_CLAIM = 0.4
/** At least this likely, a hint states it. */
const LEAST_FIX = 0.5

const worded = (
  model: ReactionModel,
  reaction: Reaction,
  reading: Reading,
  key: string,
  wordings: WordingSet = 'tiny',
): Worded => {
  const { wish, probability } = wishOf(reading)
  const uncertain = wish === 'other' || probability < model.least.wish
  const fix = reading.wishes[WISHES.indexOf('fix_value')]!
  const claim = fix >= LEAST_CLAIM ? valueIn(reaction, (hash) => model.commonWords.has(hash)) : null
  if (!uncertain && wish !== 'fix_value') return { hint: hintFor(wish, reaction.answer, null, key, wordings), claim }
  const stated = fix >= LEAST_FIX && claim !== null && !isSingleIdeograph(claim) ? claim : null
  return { hint: hintFor('fix_value', reaction.answer, stated, key), claim }
}
