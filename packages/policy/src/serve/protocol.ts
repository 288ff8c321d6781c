/** Messages between the main thread and the model thread. They contain plain data only. */
import type { PlainError } from '@instar/events/plain-error'
import type { Adapter, Capabilities, Constraint } from '@instar/engine/port'
import type { EngineChoice } from '../runtime/engines.ts'
import type { CoreShare } from '../share/core-share.ts'
import type { BatchEvent, JobRequest } from './job.ts'

export type WorkerOptions = {
  /** Path of a folder or of a .gguf file. */
  model: string
  engine: EngineChoice
  threads: number
  rows: number
  slots: number
  prefillBusy: number
  prefillIdle: number
  /** Of the learning engine in the same process; null: there is none, and serving never pauses. */
  share: CoreShare | null
}

/** `adapters`: loaded before `ready`; in a restarted thread, those that were loaded in the previous one. */
export type WorkerData = WorkerOptions & { adapters: Adapter[] }

/** Message to the model thread or the learning thread: exit without finishing the current work. */
export type Exit = { type: 'exit' }

export type ToWorker =
  | Exit
  | { type: 'submit'; key: number; request: JobRequest }
  | { type: 'abort'; key: number }
  | { type: 'load'; call: number; adapter: Adapter }
  | { type: 'check'; call: number; constraint: Constraint }
  | { type: 'unload'; sha256: string }
  | { type: 'close' }

/**
 * `base`: sha256 of the model's files. `events`: all events of one step. `done`: a call ended; `error` null: it
 * succeeded.
 */
export type FromWorker =
  | { type: 'ready'; capabilities: Capabilities; base: string }
  | { type: 'events'; events: BatchEvent[] }
  | { type: 'done'; call: number; error: PlainError | null }
  | { type: 'failed'; error: PlainError }
