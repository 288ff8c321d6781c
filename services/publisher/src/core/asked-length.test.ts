import { deepEqual, equal, ok } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { written, type BatchItem } from '@instar/events'
import { askedWith, lengthWish, type AskedLength } from './asked-length.ts'
import { checkCandidate, THRESHOLDS, type Figures } from './gate.ts'

const item = (reward: number, hint: string | null): BatchItem => ({
  turn: 't',
  record: 'r',
  session: 's',
  score: 'c',
  subject: 'u',
  version: 0,
  reward,
  baseline: 0,
  advantage: reward,
  hint: hint === null ? null : written(hint),
})
/** Sixteen turns, the first `count` of them with the hint. */
const batch = (count: number, hint: string, reward = -1): BatchItem[] =>
  Array.from({ length: 16 }, (_, i) => (i < count ? item(reward, hint) : item(1, null)))

describe('wishes for a length', () => {
  test('of a judging model are read', () => {
    for (const hint of [
      'Elaborate on the reasons.',
      'Write at least 20 words.',
      'Give more detail.',
      'Antworte ausführlicher.',
      'Donne une réponse plus longue.',
    ])
      equal(lengthWish(hint), 1, hint)
    for (const hint of ['Answer in one sentence.', 'Use at most 25 words.', 'Antworte kurz.', 'Sé más breve.'])
      equal(lengthWish(hint), -1, hint)
    for (const hint of ['Give a detailed answer in one sentence.', 'The right answer is 14.', 'Name the briefcase.'])
      equal(lengthWish(hint), 0, hint)
  })
})

const BASE: AskedLength = { asked: 0, least: 10, most: 10 }
const { lengthAsked: SHARE } = THRESHOLDS

describe('the range of lengths that were asked for', () => {
  test('follows the candidate where three of sixteen ask for it, and in the two versions after it', () => {
    let range = askedWith(BASE, batch(3, 'Explain in detail.'), 14, SHARE)
    deepEqual([range.least, range.most], [10, 14])
    for (const length of [16, 18]) range = askedWith(range, batch(0, ''), length, SHARE)
    deepEqual([range.least, range.most], [10, 18])
    for (let i = 0; i < 8; i += 1) range = askedWith(range, batch(0, ''), 30, SHARE)
    equal(range.most, 18, 'nobody asks any more')
    range = askedWith(range, batch(4, 'Keep it short.'), 6, SHARE)
    deepEqual([range.least, range.most], [6, 18])
  })
  test('stays where one of 64 asks once, where wishes are opposite, and where the hint is not taught', () => {
    const once = [...batch(1, 'Explain in detail.'), ...batch(0, ''), ...batch(0, ''), ...batch(0, '')]
    const opposite = [...batch(4, 'Explain in detail.'), ...batch(4, 'Keep it short.')]
    for (const items of [once, opposite, batch(16, 'Explain in detail.', 1), []])
      equal(askedWith(BASE, items, 40, SHARE).most, 10)
  })
})

describe('the gate on lengths', () => {
  const FIGURES: Figures = {
    finite: 1,
    kl_parent: 0.005,
    kl_base: 0.1,
    entropy: 0.5,
    length: 26,
    length_parent: 24,
    length_fixed: 26,
    length_fixed_base: 10,
    length_least: 10,
    length_most: 10,
    repetition: 0.02,
  }
  const reason = (changes: Partial<Figures>): string | null => {
    const result = checkCandidate({ ...FIGURES, ...changes }, null, THRESHOLDS)
    return result.accepted ? null : result.reason
  }
  test('rejects one beyond twice the length that was asked for and eight tokens, though the parent is as long', () => {
    equal(reason({ length_fixed: 28 }), null)
    equal(reason({ length_fixed: 28.1 }), 'length_rise')
    equal(reason({ length_fixed: 40, length_most: 16 }), null, 'asked for')
  })
  test('rejects one below a third of the shortest that was asked for', () => {
    equal(reason({ length_fixed: 3.2 }), 'length_fall')
    equal(reason({ length_fixed: 3.2, length_least: 9 }), null)
  })
  test('accepts either on a line of an earlier build without these figures', () => {
    const { length_least: _, length_most: __, ...earlier } = FIGURES
    ok(checkCandidate({ ...earlier, length_fixed: 60 }, null, THRESHOLDS).accepted)
  })
})
