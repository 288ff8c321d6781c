/** Messages between the main thread and the thread that runs the model. Everything in them is plain data. */
import type { PlainError } from '@instar/events/plain-error'
import type { Adapter, Capabilities, Constraint } from '@instar/engine/port'
import type { EngineChoice } from '../runtime/engines.ts'
import type { BatchEvent, JobRequest } from './job.ts'

export type WorkerOptions = {
  /** Folder or .gguf file. */
  model: string
  engine: EngineChoice
  threads: number
  rows: number
  slots: number
  prefillBusy: number
  prefillIdle: number
}

/** `adapters`: loaded before `ready`; those of the thread before this one. */
export type WorkerData = WorkerOptions & { adapters: Adapter[] }

/** To either thread: exit at once, without finishing the current work. */
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
 * `events`: all events of one step. `base`: sha256 of the model's files. `done`: the result of a call; `error` null:
 * it succeeded.
 */
export type FromWorker =
  | { type: 'ready'; capabilities: Capabilities; base: string }
  | { type: 'events'; events: BatchEvent[] }
  | { type: 'done'; call: number; error: PlainError | null }
  | { type: 'failed'; error: PlainError }
