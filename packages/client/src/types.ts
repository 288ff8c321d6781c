/** The arguments and results of the client. */

/** A reward from −1 to 1; true and false mean 1 and −1. */
export type Value = boolean | number

export type FeedbackOptions = {
  comment?: string
  /** The user who gives the feedback, if the key has several users. */
  user?: string
  /** Calls with the same key count once. Default: a new key per call, which its retries reuse. */
  idempotencyKey?: string
  signal?: AbortSignal
}

/** Feedback on a turn (`x-instar-turn-id` of its answer) or on the last turn of a session. */
export type Feedback = ({ turn: string } | { session: string }) & { value: Value } & FeedbackOptions

export type FeedbackResult = { id: string; session: string; turn: string | null; value: number }

/**
 * The end of a session. `reward`: the outcome of the session as an episode, for all its turns; the same reward again changes
 * nothing, another one is an error. `task`: the task of the episode; default: `x-instar-task-id` of its requests. `discarded`:
 * nothing of the session is trained on; not together with `reward`.
 */
export type CloseOptions = { reward?: Value; task?: string; discarded?: boolean; signal?: AbortSignal }

/** `closed`: ids of the turns that had no next state yet. */
export type CloseResult = { session: string; closed: string[] }

export type Session = {
  readonly id: string
  /** Headers with the session and the API key, for SDKs with custom headers. */
  readonly headers: Readonly<Record<string, string>>
  /** A URL that contains the session and ends in /v1, for SDKs without custom headers (OpenAI's). */
  readonly baseURL: string
  /** The same URL without /v1, for SDKs that append it (Anthropic's). */
  readonly origin: string
  readonly apiKey: string
  /** Gives feedback on the last turn of the session. */
  feedback(value: Value, options?: FeedbackOptions): Promise<FeedbackResult>
  /** Ends the session, so that its last turn is scored now. The session may still continue. */
  close(options?: CloseOptions): Promise<CloseResult>
}

export type Version = {
  version: number
  /** The model name of the version: `policy@3`. */
  model: string
  parent: number | null
  /** Whether `policy` refers to this version. */
  head: boolean
  /** Milliseconds since 1970; 0: before the line began. */
  publishedAt: number
}

/** The response of `GET /admin/status`, with the most used fields. */
export type Status = {
  status: string
  policy: string
  head: number
  serving: number | null
  frozen: boolean
  versions: number[]
  [more: string]: unknown
}
