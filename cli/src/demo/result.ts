/** The value that `instar demo --json` prints. Shares are 0…1. */
export type DemoResult = {
  engine: string
  seed: number
  users: {
    name: string
    /** Null: three satisfying first replies in a row did not occur. */
    sessions_to_converge: number | null
    sessions: number
    /** Share of satisfying first replies in the last 24 sessions. */
    last_24: number
    /** Share of satisfying first replies to held-out questions, by the base and by the head. */
    first_reply_ok_before: number
    first_reply_ok_after: number
  }[]
  versions: number
  requests: number
  failed_requests: number
  /** Share of held-out questions answered correctly, by the base and by the head. */
  correct_before: number
  correct_after: number
  wall_s: number
  log_bytes: number
}
