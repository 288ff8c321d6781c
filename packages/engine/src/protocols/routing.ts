/** Which replica a request goes to, and whether one that fails is asked again. */
import { contentSha } from '@instar/events'

const weight = (session: string, url: string): string => contentSha(Buffer.from(`${session}\0${url}`))

/**
 * Replicas in the order in which a request tries them. With a session: rendezvous hashing, so that it stays where
 * its prefix is cached, and only the sessions of a replica that is away move. Without: the least busy first.
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

/** Faults after which the replica is left alone for a while; one that cannot be reached at all counts as that many. */
export const FAILURES_IN_A_ROW_MAX = 3

const REOPEN_MS_MIN = 250
const REOPEN_MS_MAX = 15_000

/** How long before it is asked again, after so many times in vain. */
export const reopenDelayMs = (times: number): number => Math.min(REOPEN_MS_MIN * 2 ** times, REOPEN_MS_MAX)
