/** Messages between the main thread and the learning thread. They contain plain data only. */
import type {
  Adapter,
  EvaluateRequest,
  Evaluation,
  Fingerprint,
  Parent,
  ScoreRequest,
  StepResult,
  StepSettings,
  TrainItem,
} from '@instar/engine/port'
import type { EngineChoice } from '../runtime/engines.ts'
import type { PlainError } from '@instar/events/plain-error'
import type { CoreShare } from '../share/core-share.ts'
import type { Exit } from '../serve/protocol.ts'

export type LearnWorkerOptions = {
  /** Path of a folder or of a .gguf file. */
  model: string
  engine: EngineChoice
  /** Null: by the size of the model and the cores (`defaultThreads`). */
  threads: number | null
  /** Of the serving engine in the same process; null: there is none. */
  share: CoreShare | null
}

/** `adapters`: loaded before `ready`; in a restarted thread, those that were loaded in the previous one. */
export type LearnWorkerData = LearnWorkerOptions & { adapters: Adapter[] }

/** The calls by name, with the types of their requests and results. */
export type Calls = {
  load: { request: { adapter: Adapter }; result: null }
  unload: { request: { sha256: string }; result: null }
  step: { request: { items: readonly TrainItem[]; settings: StepSettings; parent: Parent }; result: StepResult }
  evaluate: { request: EvaluateRequest; result: Evaluation }
  score: { request: ScoreRequest; result: Float32Array }
}
export type CallName = keyof Calls

export type ToLearner =
  | { [Name in CallName]: { type: Name; call: number; request: Calls[Name]['request'] } }[CallName]
  | { type: 'close' }
  | Exit

export type FromLearner =
  | { type: 'ready'; fingerprint: Fingerprint; choice: string }
  /** Of a step: the part that is done, 0…1. */
  | { type: 'progress'; call: number; share: number }
  | { type: 'result'; call: number; result: Calls[CallName]['result'] }
  | { type: 'error'; call: number; error: PlainError }
  | { type: 'failed'; error: PlainError }
