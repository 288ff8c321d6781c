/** Asks services all the time whether they are ready, and keeps what they answered when they were not. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Service } from './service.ts'

type Readiness = {
  /** From now on; each of them is ready when it is added. */
  watch(services: readonly Service[]): void
  /** From now on no longer; resolves when no question is under way. */
  leave(services: readonly Service[]): Promise<void>
  /** Of all of them. */
  end(): Promise<void>
  /** `name: what it said`, and how often each service was asked. */
  unready: string[]
  asked: Map<string, number>
}

type Loop = { over: boolean; done: Promise<void> }

const EVERY_MS = 100
/** A process that is this late is busy, not unready: the machine is shared. */
const PATIENCE_MS = 15_000

export const startReadiness = (): Readiness => {
  const loops = new Map<string, Loop>()
  const stop = async (some: readonly Loop[]): Promise<void> => {
    for (const loop of some) loop.over = true
    await Promise.all(some.map(({ done }) => done))
  }
  const unready: string[] = []
  const asked = new Map<string, number>()
  const ask = async ({ name, url }: Service): Promise<void> => {
    asked.set(name, (asked.get(name) ?? 0) + 1)
    try {
      const response = await fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(PATIENCE_MS) })
      const text = await response.text()
      if (!response.ok) unready.push(`${name}: ${response.status} ${text}`)
    } catch (error) {
      unready.push(`${name}: ${String((error as Error).cause ?? error)}`)
    }
  }
  return {
    unready,
    asked,
    watch(services) {
      for (const service of services) {
        const loop = { over: false, done: Promise.resolve() }
        loop.done = (async () => {
          for (; !loop.over; await pause(EVERY_MS)) await ask(service)
        })()
        loops.set(service.name, loop)
      }
    },
    async leave(services) {
      await stop(services.map(({ name }) => loops.get(name)!))
    },
    end: () => stop([...loops.values()]),
  }
}
