/** The order in which a request tries the replicas, and the back-off of replicas that fail. */
import { contentSha } from '@instar/events'

const weight = (session: string, url: string): string => contentSha(Buffer.from(`${session}\0${url}`))

/**
 * With a session: rendezvous hashing, so that a session stays where its prefix is cached and only the sessions of a
 * replica that is down move. Without: the least busy replica first.
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

/** Failures after which a replica is down; one that cannot be reached counts as that many. */
export const FAILURES_IN_A_ROW_MAX = 3

const REOPEN_MS_MIN = 250
const REOPEN_MS_MAX = 15_000

/** Delay before the next attempt to reopen a replica, after `times` failed ones. */
export const reopenDelayMs = (times: number): number => Math.min(REOPEN_MS_MIN * 2 ** times, REOPEN_MS_MAX)
