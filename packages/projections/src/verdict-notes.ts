/**
 * Notes of verdicts without the scorer's digests. A digest lets equal questions, values and people be recognised on the log,
 * from which the scorer's folds are built; it has no secret, so a reader of SQL could hash what it guesses and compare. The
 * tables need none of them.
 */
import type { JudgeVerdict } from '@instar/events/records'

/** The judges whose notes hold digests: services/scorer/src/core, claims.ts, asked-alone.ts, duplicates.ts and own-record.ts. */
const JUDGES: ReadonlySet<string> = new Set(['values', 'asked', 'seen', 'record'])
/** The end of a note of `values`: who agreed, in numbers. */
const CLAIM = /^(agreed|withheld):.*(; \d+ of \d+ people(?:, \d+ for another)?)$/s

export const withoutDigests = (verdicts: readonly JudgeVerdict[]): JudgeVerdict[] =>
  verdicts.map((verdict) => {
    if (!JUDGES.has(verdict.judge)) return verdict
    const [, outcome, numbers] = CLAIM.exec(verdict.note) ?? []
    return { ...verdict, note: outcome === undefined ? '' : `${outcome}${numbers}` }
  })
