/** What is left of a key's requests, in the headers that the SDK of each dialect reads. */

/** `remaining`: requests that may come now; `resetMs`: until all of them may again; `at`: milliseconds since 1970. */
export type Standing = { limit: number; remaining: number; resetMs: number; at: number }
export type RateHeaders = (standing: Standing) => Record<string, string>

/** As Go writes a time: `60ms`, `20s`, `59.5s`, `1m0s`. */
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
