/** Failures of an engine's server. */

/**
 * A failure after which another attempt may succeed. `unreachable`: no connection; `cut`: the connection was closed
 * before the end of the response; `timeout`: a time limit passed; `status`: an HTTP status; `response`: the body is an
 * error or invalid.
 */
export class EngineFault extends Error {
  readonly kind: 'unreachable' | 'cut' | 'timeout' | 'status' | 'response'
  /** The HTTP status; 0 if there was none. */
  readonly status: number
  /** Retry-After in milliseconds. */
  readonly retryAfterMs: number | null
  constructor(
    kind: EngineFault['kind'],
    message: string,
    status = 0,
    retryAfterMs: number | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.kind = kind
    this.status = status
    this.retryAfterMs = retryAfterMs
  }

  /** For the log and other clients: without the engine's message, which may contain the prompt. */
  summary(url: string): string {
    if (this.kind === 'status') return `${url} returned ${this.status}`
    return this.kind === 'response' ? `${url} returned an error in a response` : this.message
  }
}
