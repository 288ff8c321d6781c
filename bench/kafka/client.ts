/**
 * Runs a Kafka client in a child process, which gets its tasks over IPC. Each run opens and closes the client; the
 * process is kept, so that its code stays compiled.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export const RECORD_BYTES = 2048
export const KEYS = Array.from({ length: 1024 }, (_, i) => `session-${i}`)

/** `topic`: its name on Kafka; `prefix`: of all topics of the run. */
export type TopicAddress = { brokers: readonly string[]; topic: string; prefix: string }
export type Client = {
  /** Sends a record for each key; resolves when all are acknowledged. */
  produce(keys: readonly string[]): Promise<unknown>
  /** Reads the topic from its start; resolves when `records` records have been received. */
  consume(records: number): Promise<void>
  close(): Promise<void>
}
export type Open = (address: TopicAddress, args: readonly string[]) => Promise<Client>

/** `callers`: concurrent calls, each of `perCall` records and after the reply to the one before. */
export type Task =
  | { task: 'produce'; records: number; callers: number; perCall: number }
  | { task: 'consume'; records: number }
/** `p50`, `p99`: of a call, ms. `cpuSeconds`: of the process. */
export type TaskResult = { seconds: number; cpuSeconds: number; p50: number; p99: number }
export type ClientProcess = { run(address: TopicAddress, task: Task): Promise<TaskResult>; stop(): void }

/** `module`: URL of a module that exports `open`; `args`: passed to it. */
export const startClient = (module: string, ...args: string[]): ClientProcess => {
  const child = fork(join(import.meta.dirname, 'child.ts'), [module, ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`the process of the client ${module} ended with exit code ${String(code)}`)
  })
  exited.catch(() => undefined)
  return {
    async run(address, task) {
      const message = once(child, 'message')
      child.send({ address, task })
      const [result] = (await Promise.race([message, exited])) as [TaskResult]
      return result
    },
    stop: () => {
      if (child.connected) child.disconnect()
    },
  }
}
