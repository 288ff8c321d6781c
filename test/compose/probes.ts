/** The results of the containers' health probes; Docker keeps the last five of each. */
import { setTimeout as pause } from 'node:timers/promises'
import { done } from './docker.ts'

type Probed = {
  Id: string
  Name: string
  State: { Health?: { Status: string; Log: { Start: string; ExitCode: number }[] | null } }
}

export type Probes = {
  /** Starts recording; failures before the first success belong to the start. */
  watch(ids: readonly string[]): void
  leave(ids: readonly string[]): void
  /**
   * Resolves with the probes that failed after a success, and the number of all. `late`: those that Docker ended after
   * 5 s, which means load on the machine unless it happens five times in a row.
   */
  stop(): Promise<{ failed: string[]; late: number; seen: number }>
}

const TIMED_OUT = -1
/** Five probes take 15 s. */
const EVERY_MS = 4_000

export const watchProbes = (): Probes => {
  const watched = new Set<string>()
  const healthy = new Set<string>()
  const seen = new Set<string>()
  const failed: string[] = []
  let late = 0
  const over = new AbortController()
  const look = async (): Promise<void> => {
    if (watched.size === 0) return
    for (const { Id, Name, State } of JSON.parse(await done(['inspect', ...watched])) as Probed[]) {
      if (State.Health?.Status === 'unhealthy' && watched.has(Id)) failed.push(`${Name.slice(1)} is unhealthy`)
      for (const { Start, ExitCode } of State.Health?.Log ?? []) {
        if (seen.has(Id + Start) || !watched.has(Id)) continue
        seen.add(Id + Start)
        if (ExitCode === 0) healthy.add(Id)
        else if (ExitCode === TIMED_OUT) late += 1
        else if (healthy.has(Id)) failed.push(`${Name.slice(1)} at ${Start}: ${ExitCode}`)
      }
    }
  }
  const running = (async () => {
    while (!over.signal.aborted) {
      await look()
      await pause(EVERY_MS, undefined, { signal: over.signal }).catch(() => undefined)
    }
  })()
  running.catch(() => undefined)
  return {
    watch: (ids) => ids.forEach((id) => watched.add(id)),
    leave: (ids) => ids.forEach((id) => watched.delete(id)),
    async stop() {
      over.abort()
      await running
      await look()
      watched.clear()
      return { failed, late, seen: seen.size }
    },
  }
}
