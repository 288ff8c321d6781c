/** Messages between the main thread and the thread that runs the model. Everything in them is plain data. */
import type { ErrorCode } from '@instar/events/errors'
import { InstarError } from '@instar/events/errors'
import type { Adapter, Capabilities, Constraint } from '../port.ts'
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

/** `adapters`: loaded before `ready`, those of the thread that this one takes over from. */
export type WorkerData = WorkerOptions & { adapters: Adapter[] }

/** To either thread: end now, whatever is under way. */
export type Cut = { type: 'cut' }

export type ToWorker =
  | Cut
  | { type: 'submit'; key: number; request: JobRequest }
  | { type: 'abort'; key: number }
  | { type: 'load'; call: number; adapter: Adapter }
  | { type: 'check'; call: number; constraint: Constraint }
  | { type: 'unload'; sha256: string }
  | { type: 'close' }

export type PlainError = { code: ErrorCode; message: string; details: Record<string, unknown> }

/** `events`: all that one step had to say. `base`: sha256 of the model's files. `done`: what was called for, `error` null, or not. */
export type FromWorker =
  | { type: 'ready'; capabilities: Capabilities; base: string }
  | { type: 'events'; events: BatchEvent[] }
  | { type: 'done'; call: number; error: PlainError | null }
  | { type: 'failed'; error: PlainError }

/** Details that a message cannot carry (functions, sockets) are left behind. */
export function plainError(error: unknown): PlainError {
  if (!(error instanceof InstarError)) return { code: 'internal', message: error instanceof Error ? error.message : String(error), details: {} }
  const details = Object.fromEntries(Object.entries(error.details).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value)))
  return { code: error.code, message: error.message, details }
}

export function fromPlain(error: PlainError): InstarError {
  return new InstarError(error.code, error.message, error.details)
}
