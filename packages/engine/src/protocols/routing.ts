/** The order in which a request tries the replicas, and the back-off for replicas that are down. */
import { contentSha } from '@instar/events'

const weight = (session: string, url: string): string => contentSha(Buffer.from(`${session}\0${url}`))

/**
 * With a session: rendezvous hashing, so that a session stays on the replica that has its prefix cached, and only the
 * sessions of a replica that is down move. Without: the replica with the fewest running requests first.
 */
export const routeOf = <R extends { url: string; running: number }>(
  replicas: readonly R[],
  session: string | null,
): R[] => {
  if (session === null) return [...replicas].sort((a, b) => a.running - b.running)
  if (replicas.length < 2) return [...replicas]
  return replicas
    .map((replica) => ({ replica, weight: weight(session, replica.url) }))
    .sort((a, b) => (a.weight < b.weight ? 1 : -1))
    .map(({ replica }) => replica)
}

/** Consecutive failures after which a replica is down. A failed connection counts as this many. */
export const MAX_CONSECUTIVE_FAILURES = 3

const MIN_REOPEN_MS = 250
const MAX_REOPEN_MS = 15_000

/** Delay before the next attempt to reopen a replica, after `failed` failed attempts. */
export const reopenDelayMs = (failed: number): number => Math.min(MIN_REOPEN_MS * 2 ** failed, MAX_REOPEN_MS)
