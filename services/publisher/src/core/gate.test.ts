/**
 * Candidates that are harmed in one way each, beside limits that a strong wish needs; a gate without these rules
 * accepts all.
 */
import { deepEqual, equal } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkCandidate, THRESHOLDS, type Figures } from './gate.ts'

/** Of SmolLM2-135M (packages/process/src/learning/defaults-by-size.ts). */
const LIMITS = { ...THRESHOLDS, klParent: 0.45, klBase: 1 }

/** An update of a 135M model that has learned to answer in one short sentence: 0.45 nats per token from its parent. */
const SHORT: Figures = {
  finite: 1,
  kl_parent: 0.45,
  kl_base: 0.6,
  kl_parent_fixed: 0.4,
  kl_base_fixed: 0.55,
  entropy: 0.9,
  entropy_parent: 1.4,
  entropy_fixed: 0.9,
  entropy_fixed_base: 1.5,
  cut: 0,
  cut_parent: 0.6,
  length: 14.9,
  length_parent: 48.6,
  length_fixed: 15,
  length_fixed_base: 48,
  repetition: 0.01,
  repetition_fixed: 0.01,
  content: 1 - 3 / 96,
  falls: 3,
  falls_limit: 8,
}

describe('the gate of a model with wide limits', () => {
  const reason = (changes: Partial<Figures>): string | null => {
    const result = checkCandidate({ ...SHORT, ...changes }, 1, LIMITS)
    return result.accepted ? null : result.reason
  }
  test('accepts an update that has learned a strong wish, which the limits of a small model reject', () => {
    equal(reason({}), null)
    deepEqual(checkCandidate(SHORT, 1, THRESHOLDS), { accepted: false, reason: 'kl_parent' })
  })
  test('rejects one that has lost as many probes as the limit of the line, and accepts one fewer', () => {
    equal(reason({ falls: 8, content: 1 - 8 / 96 }), 'content')
    equal(reason({ falls: 7, content: 1 - 7 / 96 }), null)
  })
  test('rejects one that has changed on the fixed prompts, where the batch shows little', () => {
    equal(reason({ kl_parent: 0.3, kl_parent_fixed: 0.46 }), 'kl_parent_fixed')
    equal(reason({ kl_base: 0.8, kl_base_fixed: 1.01 }), 'kl_base_fixed')
    equal(reason({ repetition: 0.3, repetition_fixed: 0.51 }), 'repetition')
  })
  test('rejects answers and distributions that shrank little by little to a twentieth of those of the base', () => {
    equal(reason({ length: 2.3, length_parent: 15, length_fixed: 2.3 }), 'length_low')
    equal(reason({ length: 2.5, length_parent: 15, length_fixed: 2.5 }), null)
    equal(reason({ entropy: 0.07, entropy_parent: 0.2, entropy_fixed: 0.07 }), 'entropy_low')
    equal(reason({ entropy: 0.08, entropy_parent: 0.2, entropy_fixed: 0.08 }), null)
  })
  test('a line of an earlier build, without these figures, keeps its rule for content', () => {
    const { falls: _, falls_limit: __, ...earlier } = SHORT
    equal(checkCandidate({ ...earlier, content: 0.95 }, 0.98, LIMITS).accepted, true)
    deepEqual(checkCandidate({ ...earlier, content: 0.93 }, 0.98, LIMITS), { accepted: false, reason: 'content' })
  })
})
