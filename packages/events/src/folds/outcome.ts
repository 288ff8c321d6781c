/**
 * Why a record does not count. Whether a record counts depends only on the earlier records of its topic and key, and
 * does not change later. A record that does not count affects only a metric and a row of the table `ignored`.
 */
type IgnoredReason =
  /** An earlier record states the same. */
  | 'repeat'
  /** `prev` is not the tip of the chain: the writer had not read the latest record. */
  | 'stale'
  /** No earlier record of the session has the turn, or the id of the turn belongs to another session. */
  | 'unknown_turn'
  /** The session has no earlier turn. */
  | 'unknown_session'
  /** The turn has a score of equal or higher rank. */
  | 'outranked'
  /** None of the turns that the record closes is open. */
  | 'not_open'
  /** The batch has an outcome: the first stands. Records that name this one as the one before them follow it all the same. */
  | 'settled'
  /** The line has not been started. */
  | 'no_line'
  /** The line has already been started. */
  | 'line_exists'

export type FoldOutcome = { counted: true } | { counted: false; why: IgnoredReason }

export const COUNTED: FoldOutcome = { counted: true }
export const ignored = (why: IgnoredReason): FoldOutcome => ({ counted: false, why })
