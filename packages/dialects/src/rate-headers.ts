/** The rate limit headers that the SDK of each dialect reads. */

/**
 * The state of an API key's request limit. `limit`: requests at most; `remaining`: requests left; `resetMs`:
 * milliseconds until all are left again; `at`: milliseconds since 1970.
 */
export type RateLimitState = { limit: number; remaining: number; resetMs: number; at: number }
export type RateHeaders = (standing: RateLimitState) => Record<string, string>

/** A duration in Go's format, as OpenAI sends it: `60ms`, `20s`, `59.5s`, `1m0s`. */
const goDuration = (ms: number): string => {
  if (ms > 0 && ms < 1000) return `${ms}ms`
  const minutes = Math.floor(ms / 60_000)
  return `${minutes > 0 ? `${minutes}m` : ''}${(ms - minutes * 60_000) / 1000}s`
}

/** RFC 3339, rounded up to a second. */
const rfc3339 = (ms: number): string => new Date(Math.ceil(ms / 1000) * 1000).toISOString().replace('.000', '')

export const openaiRateHeaders: RateHeaders = ({ limit, remaining, resetMs }) => ({
  'x-ratelimit-limit-requests': String(limit),
  'x-ratelimit-remaining-requests': String(remaining),
  'x-ratelimit-reset-requests': goDuration(resetMs),
})

export const anthropicRateHeaders: RateHeaders = ({ limit, remaining, resetMs, at }) => ({
  'anthropic-ratelimit-requests-limit': String(limit),
  'anthropic-ratelimit-requests-remaining': String(remaining),
  'anthropic-ratelimit-requests-reset': rfc3339(at + resetMs),
})
