/** The embedded `LearningEngine`: the model runs in a worker thread, to which calls are posted as messages. */
import { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import type {
  Adapter,
  EvaluateRequest,
  Evaluation,
  Fingerprint,
  LearningEngine,
  Parent,
  StepResult,
  StepSettings,
  TrainItem,
  ScoreRequest,
} from '@instar/engine/port'
import { fromPlain } from '@instar/events/plain-error'
import { Thread, THREAD_DEFAULTS, type ThreadSettings } from '../serve/thread.ts'
import { endWork } from '../share/core-share.ts'
import type { CallName, Calls, FromLearner, LearnWorkerData, LearnWorkerOptions, ToLearner } from './protocol.ts'

/**
 * `threads`: part of the fingerprint; default: by the size of the model (`defaultThreads`). `signal` aborts the start only.
 */
export type LearningOptions = { model: string; signal?: AbortSignal } & Partial<
  Omit<LearnWorkerOptions, 'model'> & ThreadSettings
>

type Ready = Extract<FromLearner, { type: 'ready' }>
type PendingCall = {
  message: ToLearner
  resolve(result: Calls[CallName]['result']): void
  reject(error: InstarError): void
  onProgress: ((share: number) => void) | undefined
}

/**
 * Calls run one at a time, in order. If the thread ends unexpectedly, unfinished calls reject with `engine_lost`; later
 * calls wait for the next thread, which starts with the loaded adapters. The error of the call that was running when the
 * thread ended has `running` in its details, the name of the call.
 */
class EmbeddedLearning implements LearningEngine {
  private readonly thread: Thread<ToLearner, FromLearner, Ready>
  private ready: Ready | null = null
  private readonly adapters = new Map<string, Adapter>()
  /** The adapters that were passed to the current thread at its start. */
  private startAdapters: Adapter[] = []
  /** In the order of the calls. */
  private readonly pending = new Map<number, PendingCall>()
  private next = 1

  constructor(options: LearnWorkerOptions, settings: ThreadSettings) {
    this.thread = new Thread(
      {
        name: 'The learning thread',
        spawn: () => {
          this.startAdapters = [...this.adapters.values()]
          return new Worker(new URL('./worker.ts', import.meta.url), {
            workerData: { ...options, adapters: this.startAdapters } satisfies LearnWorkerData,
          })
        },
        native: (ready) => (ready?.fingerprint.engine ?? options.engine) !== 'wasm',
        receive: (message) => {
          this.receive(message)
        },
        lost: (error, atWork) => {
          if (options.share) endWork(options.share)
          const [running, ...queued] = this.pending.values()
          const details = atWork ? { running: running?.message.type } : {}
          running?.reject(new InstarError('engine_lost', error.message, details, { cause: error }))
          for (const pending of queued) pending.reject(error)
          this.pending.clear()
        },
        differs: (first, again) =>
          JSON.stringify(first.fingerprint) === JSON.stringify(again.fingerprint)
            ? null
            : `The model or its engine has changed since the start: the fingerprint was ${JSON.stringify(first.fingerprint)} and is now ${JSON.stringify(again.fingerprint)}.`,
        up: () => {
          for (const { sha256 } of this.startAdapters)
            if (!this.adapters.has(sha256)) this.thread.post({ type: 'unload', call: 0, request: { sha256 } })
          this.startAdapters = []
          for (const { message } of this.pending.values()) this.thread.post(message)
        },
      },
      settings,
    )
  }

  async start(signal?: AbortSignal): Promise<void> {
    this.ready = await this.thread.start(signal)
  }

  private started(): Ready {
    if (!this.ready) throw new Error('the engine was not started')
    return this.ready
  }

  /** One line that names the engine and the reason for its choice. */
  get choice(): string {
    return this.started().choice
  }

  fingerprint(): Fingerprint {
    return this.started().fingerprint
  }

  /** The bytes must not change afterwards, since they are also passed to the next thread. */
  async load(adapter: Adapter): Promise<void> {
    await this.call('load', { adapter })
    this.adapters.set(adapter.sha256, adapter)
  }

  async unload(sha256: string): Promise<void> {
    try {
      await this.call('unload', { sha256 })
    } catch (error) {
      // A thread that has ended has no adapters.
      if (!(error instanceof InstarError && error.code === 'engine_lost')) throw error
    } finally {
      this.adapters.delete(sha256)
    }
  }

  step(
    items: readonly TrainItem[],
    settings: StepSettings,
    parent: Parent,
    onProgress?: (share: number) => void,
  ): Promise<StepResult> {
    return this.call('step', { items, settings, parent }, onProgress)
  }

  evaluate(request: EvaluateRequest): Promise<Evaluation> {
    return this.call('evaluate', request)
  }

  score(request: ScoreRequest): Promise<Float32Array> {
    return this.call('score', request)
  }

  /** Calls that finish within the grace period resolve; the others reject with `engine_lost`. */
  close(): Promise<void> {
    return this.thread.close({ type: 'close' })
  }

  private call<Name extends CallName>(
    type: Name,
    request: Calls[Name]['request'],
    onProgress?: (share: number) => void,
  ): Promise<Calls[Name]['result']> {
    const refusal = this.thread.refusal()
    if (refusal) return Promise.reject(refusal)
    const call = this.next++
    // The type of `request` depends on `type`; the union type cannot express this for a generic name.
    const message = { type, call, request } as ToLearner
    return new Promise<Calls[Name]['result']>((resolve, reject) => {
      this.pending.set(call, {
        message,
        resolve: (result) => {
          resolve(result as Calls[Name]['result'])
        },
        reject,
        onProgress,
      })
      this.thread.post(message)
    })
  }

  private receive(message: FromLearner): void {
    if (message.type === 'progress') return this.pending.get(message.call)?.onProgress?.(message.share)
    if (message.type !== 'result' && message.type !== 'error') return
    const pending = this.pending.get(message.call)
    this.pending.delete(message.call)
    if (message.type === 'result') pending?.resolve(message.result)
    else pending?.reject(fromPlain(message.error))
  }
}

/** Resolves when the model is loaded. Rejects with the error of the start, or with `aborted` when `signal` aborts. */
export async function startLearning(options: LearningOptions): Promise<LearningEngine & { readonly choice: string }> {
  const { signal, backoffMs, waitMs, graceMs, ...rest } = { ...THREAD_DEFAULTS, ...options }
  const engine = new EmbeddedLearning(
    { engine: 'auto', threads: null, share: null, ...rest },
    { backoffMs, waitMs, graceMs },
  )
  await engine.start(signal)
  return engine
}
