/**
 * A client of Kafka in a process of its own, told what to do over IPC. A run opens the client, works and closes
 * it; the process, and what its compiler has learned, stay.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export const RECORD_BYTES = 2048
export const KEYS = Array.from({ length: 1024 }, (_, i) => `session-${i}`)

export type Place = { brokers: readonly string[]; topic: string; prefix: string }
export type Client = {
  /** One record for each key; resolves when all are acknowledged. */
  produce(keys: readonly string[]): Promise<unknown>
  /** Resolves when so many records were received since the start of the topic. */
  consume(records: number): Promise<void>
  close(): Promise<void>
}
export type Open = (place: Place, words: readonly string[]) => Promise<Client>

/** `callers` wait for each answer before the next call, of `perCall` records. */
export type Work =
  | { task: 'produce'; records: number; callers: number; perCall: number }
  | { task: 'consume'; records: number }
/** Milliseconds of a call; CPU seconds of the process. */
export type Done = { seconds: number; cpuSeconds: number; p50: number; p99: number }
export type Process = { run(place: Place, work: Work): Promise<Done>; stop(): void }

export const startClient = (module: string, ...words: string[]): Process => {
  const child = fork(join(import.meta.dirname, 'child.ts'), [module, ...words], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the client of ${module} ended with ${String(code)}`)
  })
  ended.catch(() => undefined)
  return {
    async run(place, job) {
      const answer = once(child, 'message')
      child.send({ place, job })
      const [done] = (await Promise.race([answer, ended])) as [Done]
      return done
    },
    stop: () => {
      if (child.connected) child.disconnect()
    },
  }
}
