/** The value that `instar demo --model … --json` prints for a general model. Shares are 0…1. */
export type WishesResult = {
  model: string
  engine: string
  seed: number
  users: {
    name: string
    sessions: number
    /** Share of good first replies in the last 24 conversations. */
    last_24: number
    /** Share of good first replies to held-out questions, by the base and by the head. */
    first_reply_ok_before: number
    first_reply_ok_after: number
  }[]
  versions: number
  /** Each verdict of the gate, in order. Seconds since the conversations began; `sealed_s` null: sealed before. */
  updates: {
    version: number | null
    reason: string | null
    sealed_s: number | null
    computed_s: number | null
    verdict_s: number
    kl_parent: number | null
    kl_base: number | null
  }[]
  refusals: number
  requests: number
  failed_requests: number
  /**
   * Questions with one right answer: those the base answered correctly, and the share of them that the head still does.
   */
  probes: { asked: number; base_correct: number; kept: number }
  /**
   * Seconds until the base was measured and the gate had its probes, of the conversations alone, and of the whole run with
   * its measurements.
   */
  preparation_s: number
  learning_s: number
  wall_s: number
  log_bytes: number
}
