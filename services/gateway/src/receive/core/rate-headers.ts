/** The remaining requests of a key, for the rate-limit headers. */
import { DIALECTS, type RateLimitState } from '@instar/dialects'
import { filledOf, type Bucket } from './keys.ts'

export const standingOf = (bucket: Bucket | null, perMinute: number, now: number): Omit<RateLimitState, 'at'> => {
  const left = filledOf(bucket, perMinute, now)
  return {
    limit: perMinute,
    remaining: Math.max(0, Math.floor(left)),
    resetMs: Math.ceil(((perMinute - left) * 60_000) / perMinute),
  }
}

/** All rate-limit headers, which pages of listed origins may read. */
export const RATE_HEADERS: readonly string[] = [
  ...new Set(
    Object.values(DIALECTS).flatMap(({ rateHeaders }) =>
      Object.keys(rateHeaders({ limit: 0, remaining: 0, resetMs: 0, at: 0 })),
    ),
  ),
]
