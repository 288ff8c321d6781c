/** Polls services for readiness and keeps the responses of those that were not ready. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Service } from './service.ts'

type Readiness = {
  /** Starts polling services, which must be ready when they are added. */
  watch(services: readonly Service[]): void
  /** Stops polling a service; resolves when no request is open. */
  leave(services: readonly Service[]): Promise<void>
  /** Stops polling all services. */
  end(): Promise<void>
  /** `name: response`, and the number of requests to each service. */
  unready: string[]
  asked: Map<string, number>
}

type Loop = { over: boolean; done: Promise<void> }

const EVERY_MS = 100
/** A response that takes this long is due to load on the machine, not to the service. */
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
