/**
 * Whether a record counts is a function of the earlier records of its own topic and key, nothing else, and
 * it is final. One that does not count changes nothing but a metric and a row in `ignored`.
 */
export type IgnoredReason =
  /** The same fact again. */
  | 'repeat'
  /** `prev` is not the tip: a writer that had not read the latest record. */
  | 'stale'
  /** It names a turn that is not on its session's log before it, or its own turn's id is not of its session. */
  | 'unknown_turn'
  /** The session has no turn before it. */
  | 'unknown_session'
  /** The turn has a score of the same or a higher rank. */
  | 'outranked'
  /** None of the turns that it closes is still open. */
  | 'not_open'
  /** The line has not been started, or has been already. */
  | 'no_line'
  | 'line_exists'

export type FoldOutcome = { counted: true } | { counted: false; why: IgnoredReason }

export const COUNTED: FoldOutcome = { counted: true }
export const ignored = (why: IgnoredReason): FoldOutcome => ({ counted: false, why })
