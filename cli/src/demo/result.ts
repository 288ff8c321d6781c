/** The figures of a demo, as `--json` prints them. */
export type DemoResult = {
  engine: string
  seed: number
  users: {
    name: string
    sessions_to_converge: number | null
    sessions: number
    last_24: number
    first_reply_ok_before: number
    first_reply_ok_after: number
  }[]
  versions: number
  requests: number
  failed_requests: number
  correct_before: number
  correct_after: number
  wall_s: number
  log_bytes: number
}
