/**
 * A request that failed after all retries. `status`: of the response, 0 without one. `code`: of docs/errors.md,
 * `no_answer` without a response, `unknown` if the response has none.
 */
export class InstarClientError extends Error {
  readonly status: number
  readonly code: string
  readonly requestId: string | null
  /** Whether a repeated request may succeed. */
  readonly retryable: boolean
  constructor(
    message: string,
    {
      status,
      code,
      requestId,
      retryable,
    }: { status: number; code: string; requestId: string | null; retryable: boolean },
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.name = 'InstarClientError'
    this.status = status
    this.code = code
    this.requestId = requestId
    this.retryable = retryable
  }
}

const RETRYABLE_STATUSES = new Set([408, 425, 429, 500, 502, 503, 504])

/** The error of a response. Responses of other servers (proxies) have code `unknown`. */
export const faultOf = (status: number, body: unknown, headers: Headers): InstarClientError => {
  const error: unknown = typeof body === 'object' && body !== null && 'error' in body ? body.error : null
  const field = (name: string): string | null => {
    const value: unknown = typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : null
    return typeof value === 'string' ? value : null
  }
  return new InstarClientError(field('message') ?? `The gateway answered with HTTP ${status}.`, {
    status,
    code: field('code') ?? 'unknown',
    requestId: headers.get('x-request-id'),
    retryable: headers.get('x-should-retry') !== 'false' && RETRYABLE_STATUSES.has(status),
  })
}

/**
 * Milliseconds to wait by the response's headers: `retry-after-ms`, else `Retry-After` in seconds or as a date. Null
 * without a valid header. `now`: milliseconds since 1970.
 */
export const retryAfterMs = (headers: Headers, now: number): number | null => {
  const ms = Number(headers.get('retry-after-ms') ?? Number.NaN)
  if (ms >= 0) return ms
  const after = headers.get('retry-after')
  if (after === null) return null
  const seconds = Number(after)
  if (seconds >= 0) return 1000 * seconds
  const date = Date.parse(after)
  return Number.isNaN(date) ? null : Math.max(0, date - now)
}
