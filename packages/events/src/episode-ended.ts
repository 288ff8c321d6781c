/** The end of an episode, on `scores`: what a reader of scores needs of a `SessionClosed`, so that it needs no fold of `turns`. */

/**
 * An episode ended: its turns wait for an outcome no longer. An episode is a session of which a turn names a task, or that
 * has an outcome. The first record of a session counts, and after one without an outcome the first with one: a session that
 * was closed without an outcome may still get it.
 */
export type EpisodeEnded = {
  type: 'EpisodeEnded'
  session: string
  /** Of the turns. A session with turns of several policies has a record for each. */
  policy: string
  /** Id of the SessionClosed with the outcome; without an outcome that of one that closed or discarded turns. */
  closing: string
  /** Reward of the session as an episode, −1…1; null: it was closed without one. */
  outcome: number | null
  /** Time of the SessionClosed with the outcome; null without one. */
  endedAt: number | null
  /** The task of the episode; '': it has none. */
  task: string
  /** Public id of the API key of the session's first turn, and its time. */
  key: string | null
  begunAt: number
  /**
   * Turns of the policy that the outcome covers and of which judges are asked: each gets a score or a skip. Turns that were
   * discarded since are among them. Empty without an outcome.
   */
  turns: string[]
  /** A long list is divided: this record has part `part`, from 0, of `parts`. */
  part: number
  parts: number
  at: number
}
