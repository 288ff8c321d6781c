/** What is left of a key's requests, in the headers that the SDK of each dialect reads. */
import { filledOf, type Bucket } from './keys.ts'

/** `remaining`: requests that may come now; `resetMs`: until all of them may again; `at`: milliseconds since 1970. */
export type Standing = { limit: number; remaining: number; resetMs: number; at: number }

export const standingOf = (bucket: Bucket | null, perMinute: number, now: number): Standing => {
  const left = filledOf(bucket, perMinute, now)
  return {
    limit: perMinute,
    remaining: Math.max(0, Math.floor(left)),
    resetMs: Math.ceil(((perMinute - left) * 60_000) / perMinute),
    at: now,
  }
}

/** As Go writes a time: `60ms`, `20s`, `59.5s`, `1m0s`. */
const spelled = (ms: number): string => {
  if (ms > 0 && ms < 1000) return `${ms}ms`
  const minutes = Math.floor(ms / 60_000)
  return `${minutes > 0 ? `${minutes}m` : ''}${(ms - minutes * 60_000) / 1000}s`
}

/** RFC 3339, to the second at which everything is there. */
const second = (ms: number): string => new Date(Math.ceil(ms / 1000) * 1000).toISOString().replace('.000', '')

export const rateHeaders = ({ limit, remaining, resetMs, at }: Standing, dialect: string): Record<string, string> => {
  const requests = { limit: String(limit), remaining: String(remaining) }
  if (dialect === 'messages')
    return named((name) => `anthropic-ratelimit-requests-${name}`, { ...requests, reset: second(at + resetMs) })
  return named((name) => `x-ratelimit-${name}-requests`, { ...requests, reset: spelled(resetMs) })
}

const named = (header: (name: string) => string, values: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [header(name), value]))

/** All of them, for pages of other origins. */
export const RATE_HEADERS: readonly string[] = ['chat', 'messages'].flatMap((dialect) =>
  Object.keys(rateHeaders({ limit: 0, remaining: 0, resetMs: 0, at: 0 }, dialect)),
)
