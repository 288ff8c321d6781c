/** Observes the threads that engines start. */
import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'

/** In the order of their start, with its time. The log has a thread too. */
export const threads: { worker: Worker; at: number }[] = []

let listener = (): void => undefined
process.on('worker', (worker: Worker) => {
  // With one thread the engines onnx and wasm start no further ones.
  threads.push({ worker, at: performance.now() })
  listener()
})

/** The thread that started last. */
export const latest = (): Worker => {
  const thread = threads.at(-1)
  if (!thread) throw new Error('no thread was started')
  return thread.worker
}

/** Resolves when `count` threads have been started in all. */
export async function started(count: number): Promise<void> {
  while (threads.length < count)
    await new Promise<void>((resolve) => {
      listener = resolve
    })
}

/** Resolves after the first message of the last thread, once its engine has received it. */
export async function spoken(): Promise<void> {
  await once(latest(), 'message')
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/** Sends a message that ends the thread between two steps. Resolves when it has ended. */
export async function crash(worker = latest()): Promise<void> {
  // Not `once`, which rejects on the error before the exit.
  const exited = new Promise((resolve) => {
    worker.once('exit', resolve)
  })
  worker.postMessage(null)
  await exited
}
