/** The threads that the engines start, seen from outside. */
import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'

/** In the order of their start, with the time of it. The log has a thread too. */
export const threads: { worker: Worker; at: number }[] = []

let listener = (): void => undefined
process.on('worker', (worker: Worker) => {
  // The onnx and wasm engines start none of their own with one thread.
  threads.push({ worker, at: performance.now() })
  listener()
})

/** The thread started last. */
export const latest = (): Worker => {
  const thread = threads.at(-1)
  if (!thread) throw new Error('no thread was started')
  return thread.worker
}

/** Resolves when as many threads as `count` have been started since the beginning. */
export async function started(count: number): Promise<void> {
  while (threads.length < count)
    await new Promise<void>((resolve) => {
      listener = resolve
    })
}

/** Resolves after the first words of the thread started last, when its engine has heard them. */
export async function spoken(): Promise<void> {
  await once(latest(), 'message')
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/** A message that the thread does not survive, heard between two steps. Resolves when it has ended. */
export async function crash(worker = latest()): Promise<void> {
  // Not `once`, which rejects on the error that comes first.
  const exited = new Promise((resolve) => {
    worker.once('exit', resolve)
  })
  worker.postMessage(null)
  await exited
}
