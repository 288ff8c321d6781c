/** What goes to the gateway and comes back. */

/** true and false are 1 and −1. */
export type Value = boolean | number

export type FeedbackOptions = {
  comment?: string
  /** The user who gives the feedback, if the key has several users. */
  user?: string
  /**
   * The same key for the same feedback: a repeat counts once. Default: a new key per call, kept through its retries.
   */
  idempotencyKey?: string
  signal?: AbortSignal
}

/** Of one turn (`x-instar-turn-id` of its answer), or of the last turn of a session. */
export type Feedback = ({ turn: string } | { session: string }) & { value: Value } & FeedbackOptions

export type FeedbackGiven = { id: string; session: string; turn: string | null; value: number }

/** `closed`: the turns that waited for what would be said next. */
export type Closed = { session: string; closed: string[] }

export type Session = {
  readonly id: string
  /** For SDKs that take headers: they name the session (and carry the key). */
  readonly headers: Readonly<Record<string, string>>
  /** For SDKs that take a URL alone: it names the session. OpenAI's end in /v1. */
  readonly baseURL: string
  /** The same without /v1, for SDKs that add it (Anthropic's). */
  readonly origin: string
  readonly apiKey: string
  /** Of the last turn of the session. */
  feedback(value: Value, options?: FeedbackOptions): Promise<FeedbackGiven>
  /** Ends the session, so that its last turn is scored now. The session may still continue. */
  close(options?: { signal?: AbortSignal }): Promise<Closed>
}

export type Version = {
  version: number
  /** The name to ask for it: `policy@3`. */
  model: string
  parent: number | null
  /** Whether `policy` is this version now. */
  head: boolean
  /** Milliseconds since 1970; 0: before the line began. */
  publishedAt: number
}

/** Of `GET /admin/status`; there is more in it. */
export type Status = {
  status: string
  policy: string
  head: number
  serving: number | null
  frozen: boolean
  versions: number[]
  [more: string]: unknown
}
