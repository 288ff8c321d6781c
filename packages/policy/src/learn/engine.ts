/** The embedded `LearningEngine`: the model in a thread of its own, calls as messages. */
import { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import type { Adapter, EvaluateRequest, Evaluation, Fingerprint, LearningEngine, Parent, StepResult, StepSettings, TrainItem } from '../port.ts'
import { fromPlain } from '../serve/protocol.ts'
import type { CallName, Calls, FromLearner, LearnWorkerOptions, ScoreCall, ToLearner } from './protocol.ts'

/** One thread is the default: it is part of the fingerprint, and serving keeps the others. */
export type LearningOptions = { model: string } & Partial<Omit<LearnWorkerOptions, 'model'>>

type Pending = { resolve(result: Calls[CallName]['result']): void; reject(error: InstarError): void }

class EmbeddedLearning implements LearningEngine {
  private readonly worker: Worker
  private readonly print: Fingerprint
  /** One line: which engine, and why. */
  readonly choice: string
  private readonly pending = new Map<number, Pending>()
  private next = 1
  private lost: InstarError | null = null
  private closed: Promise<void> | null = null
  private readonly exited: Promise<void>

  constructor(worker: Worker, fingerprint: Fingerprint, choice: string) {
    this.worker = worker
    this.print = fingerprint
    this.choice = choice
    worker.on('message', (message: FromLearner) => { this.hear(message) })
    worker.on('error', (error: Error) => { this.lose(`The thread that learns ended: ${error.message}`, error) })
    this.exited = new Promise((resolve) => {
      worker.once('exit', () => {
        this.lose('The thread that learns has ended.')
        resolve()
      })
    })
  }

  fingerprint(): Fingerprint { return this.print }

  async load(adapter: Adapter): Promise<void> { await this.call('load', { adapter }) }

  async unload(sha256: string): Promise<void> { await this.call('unload', { sha256 }) }

  step(items: readonly TrainItem[], settings: StepSettings, parent: Parent): Promise<StepResult> { return this.call('step', { items, settings, parent }) }

  evaluate(request: EvaluateRequest): Promise<Evaluation> { return this.call('evaluate', request) }

  score(request: ScoreCall): Promise<Float32Array> { return this.call('score', request) }

  /** Calls under way are finished first. */
  close(): Promise<void> {
    this.closed ??= (async () => {
      if (!this.lost) this.worker.postMessage({ type: 'close' } satisfies ToLearner)
      await this.exited
    })()
    return this.closed
  }

  private call<Name extends CallName>(type: Name, request: Calls[Name]['request']): Promise<Calls[Name]['result']> {
    if (this.lost ?? this.closed) return Promise.reject(this.lost ?? new InstarError('engine_lost', 'The learning engine was closed.'))
    const call = this.next++
    return new Promise<Calls[Name]['result']>((resolve, reject) => {
      this.pending.set(call, { resolve: (result) => { resolve(result as Calls[Name]['result']) }, reject })
      this.worker.postMessage({ type, call, request })
    })
  }

  private hear(message: FromLearner): void {
    if (message.type === 'failed') this.lose(message.error.message)
    if (message.type !== 'result' && message.type !== 'error') return
    const pending = this.pending.get(message.call)
    this.pending.delete(message.call)
    if (message.type === 'result') pending?.resolve(message.result)
    else pending?.reject(fromPlain(message.error))
  }

  private lose(reason: string, cause?: Error): void {
    this.lost ??= new InstarError('engine_lost', reason, {}, cause ? { cause } : {})
    for (const pending of this.pending.values()) pending.reject(this.lost)
    this.pending.clear()
  }
}

/** Resolves when the model is in memory; rejects with the reason where it cannot be. */
export async function startLearning(options: LearningOptions): Promise<LearningEngine & { readonly choice: string }> {
  const workerData: LearnWorkerOptions = { engine: 'auto', threads: 1, ...options }
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData })
  const first = await new Promise<FromLearner>((resolve, reject) => {
    const fail = (error: Error): void => { reject(new InstarError('engine_lost', `The thread that learns did not start: ${error.message}`, {}, { cause: error })) }
    worker.once('error', fail)
    worker.once('message', (message: FromLearner) => {
      worker.off('error', fail)
      resolve(message)
    })
  })
  if (first.type === 'ready') return new EmbeddedLearning(worker, first.fingerprint, first.choice)
  await worker.terminate()
  throw first.type === 'failed' ? fromPlain(first.error) : new InstarError('internal', `The thread that learns began with ${first.type}.`)
}
