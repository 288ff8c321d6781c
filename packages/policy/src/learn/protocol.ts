/** Messages between the main thread and the learning thread, all plain data. */
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
import type { Exit } from '../serve/protocol.ts'

export type LearnWorkerOptions = {
  /** Folder or .gguf file. */
  model: string
  engine: EngineChoice
  threads: number
}

/** `adapters`: loaded before `ready`; those of the thread before this one. */
export type LearnWorkerData = LearnWorkerOptions & { adapters: Adapter[] }

/** The calls with their requests and results. */
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
  | { type: 'result'; call: number; result: Calls[CallName]['result'] }
  | { type: 'error'; call: number; error: PlainError }
  | { type: 'failed'; error: PlainError }
