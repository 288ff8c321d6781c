/**
 * Negations in hints of a judging model. A model that does not understand them makes what is forbidden more likely; the
 * publisher measures at line start whether the base obeys them (services/publisher, shell/negation.ts).
 */
import type { LineStarted } from '@instar/events'
import type { Judged } from './judgement.ts'

const NEGATION =
  /\b(?:do not|don't|does not|never|avoid|stop|without|no|not|isn't|aren't|less|fewer|refrain|instead of|rather than)\b/iu

export const hasNegation = (hint: string): boolean => NEGATION.test(hint)

/** Answers with the forbidden word when it was not forbidden, below which the measurement says nothing. */
const LEAST = 6

/**
 * Whether the line's base used forbidden words in at most half as many answers as without the instruction. False for a
 * line that did not measure it.
 */
export const obeysNegation = (started: Pick<LineStarted, 'settings'> | null): boolean => {
  const { negation_without: without = 0, negation_with: forbidden = without } = started?.settings ?? {}
  return without >= LEAST && forbidden * 2 <= without
}

/**
 * Without a hint that forbids, unless the line's base obeys. Words of a claim are a person's own: what looks like a
 * negation there is part of a value.
 */
export const withNegation = (judged: Judged, started: Pick<LineStarted, 'settings'> | null): Judged =>
  judged.hint === null || judged.claim !== undefined || !hasNegation(judged.hint) || obeysNegation(started)
    ? judged
    : { ...judged, hint: null, hintJudge: null }
