/**
 * A request that failed for good. `status` 0: no answer came. `code`: of the gateway's closed table, or `no_answer`.
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

const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

/** The error of a response, also of one that another server sent. */
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
    retryable: headers.get('x-should-retry') !== 'false' && PASSING.has(status),
  })
}

/**
 * How long the answer asks to wait: `retry-after-ms`, else `Retry-After` as seconds or as a date; null where it does
 * not say.
 */
export const askedToWait = (headers: Headers, now: number): number | null => {
  const ms = Number(headers.get('retry-after-ms') ?? Number.NaN)
  if (ms >= 0) return ms
  const after = headers.get('retry-after')
  if (after === null) return null
  const seconds = Number(after)
  if (seconds >= 0) return 1000 * seconds
  const date = Date.parse(after)
  return Number.isNaN(date) ? null : Math.max(0, date - now)
}
