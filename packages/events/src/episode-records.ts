/** Records of episodes on `scores`: what a reader of scores needs to know of a session, so that it needs no fold of `turns`. */

/**
 * An episode runs: a turn of the session names a task, a batch of its policy may use it, and the session is not closed. Its
 * turns wait for an outcome. The first record of a session counts, and after one without a name of the task the first with
 * one. A session that was closed before has none: its `EpisodeEnded` says the same.
 */
export type EpisodeBegun = {
  type: 'EpisodeBegun'
  session: string
  /** Of the turns. A session with turns of several policies has a record for each. */
  policy: string
  /** The task of the episode as far as its turns name it; '': none of them does. */
  task: string
  /** Public id of the API key of the session's first turn, and its time, ms since the epoch. */
  key: string | null
  begunAt: number
  at: number
}

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

export type EpisodeRecord = EpisodeBegun | EpisodeEnded

/** Whether it is of an episode: a record on `scores` that scores no turn. */
export const isEpisodeRecord = (event: { type: string }): event is EpisodeRecord =>
  event.type === 'EpisodeBegun' || event.type === 'EpisodeEnded'
