/** The embedded `ServingEngine`: the model in a thread of its own, requests and pieces as messages. */
import { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import type { Adapter, AdapterSha, Capabilities, GenerateRequest, GeneratedPiece, Load, ServingEngine } from '../port.ts'
import { checkGenerate, checkScore } from './check.ts'
import type { BatchEvent, JobRequest, ScoreRequest } from './job.ts'
import { PieceQueue } from './pieces.ts'
import { fromPlain, type FromWorker, type ToWorker, type WorkerOptions } from './protocol.ts'

/** `rows`: requests in one batch. `slots`: adapters in one batch. `queue`: requests that may wait beyond `rows`. */
export type ServingOptions = { model: string } & Partial<Omit<WorkerOptions, 'model'> & { queue: number }>

const DEFAULTS = { engine: 'auto', threads: 2, rows: 8, slots: 4, prefillBusy: 64, prefillIdle: 256, queue: 256 } as const

type Open =
  | { type: 'generate'; queue: PieceQueue; detach(): void }
  | { type: 'score'; resolve(logprobs: Float32Array): void; reject(error: InstarError): void }
type Call = { resolve(): void; reject(error: InstarError): void }

class EmbeddedServing implements ServingEngine {
  private readonly worker: Worker
  private readonly capable: Capabilities
  private readonly rows: number
  private readonly limit: number
  private readonly adapters = new Set<string>()
  private readonly open = new Map<number, Open>()
  private readonly calls = new Map<number, Call>()
  private next = 1
  private lost: InstarError | null = null
  private closed: Promise<void> | null = null
  private readonly exited: Promise<void>

  constructor(worker: Worker, capabilities: Capabilities, limits: { rows: number; queue: number }) {
    this.worker = worker
    this.capable = capabilities
    this.rows = limits.rows
    this.limit = limits.rows + limits.queue
    worker.on('message', (message: FromWorker) => this.hear(message))
    worker.on('error', (error: Error) => this.lose(`The thread of the model ended: ${error.message}`, error))
    this.exited = new Promise((resolve) => {
      worker.once('exit', () => {
        this.lose('The thread of the model has ended.')
        resolve()
      })
    })
  }

  capabilities(): Capabilities { return this.capable }

  pending(): Load {
    return { running: Math.min(this.open.size, this.rows), waiting: Math.max(0, this.open.size - this.rows) }
  }

  async load(adapter: Adapter): Promise<void> {
    if (this.lost) throw this.lost
    if (this.adapters.has(adapter.sha256)) return
    const call = this.next++
    await new Promise<void>((resolve, reject) => {
      this.calls.set(call, { resolve, reject })
      this.post({ type: 'load', call, adapter })
    })
    this.adapters.add(adapter.sha256)
  }

  async unload(sha256: string): Promise<void> {
    if (this.adapters.delete(sha256)) this.post({ type: 'unload', sha256 })
  }

  /** Refusals are thrown here, before anything waits; later errors come from the iterator. */
  generate(request: GenerateRequest, signal?: AbortSignal): AsyncIterable<GeneratedPiece> {
    this.admit(request.adapter)
    checkGenerate(request, this.capable)
    const key = this.next++
    const giveUp = () => {
      if (!this.open.delete(key)) return
      signal?.removeEventListener('abort', onAbort)
      this.post({ type: 'abort', key })
    }
    const queue = new PieceQueue(giveUp)
    const onAbort = () => {
      giveUp()
      queue.fail(new InstarError('aborted', 'The request was given up.', {}, { cause: signal?.reason }))
    }
    if (signal?.aborted) {
      onAbort()
      return queue
    }
    signal?.addEventListener('abort', onAbort)
    this.open.set(key, { type: 'generate', queue, detach: () => signal?.removeEventListener('abort', onAbort) })
    this.submit(key, { kind: 'generate', ...request })
    return queue
  }

  async score(request: ScoreRequest): Promise<Float32Array> {
    this.admit(request.adapter)
    checkScore(request, this.capable)
    if (request.completion.length === 0) return new Float32Array(0)
    const key = this.next++
    return new Promise((resolve, reject) => {
      this.open.set(key, { type: 'score', resolve, reject })
      this.submit(key, { kind: 'score', ...request })
    })
  }

  close(): Promise<void> {
    this.closed ??= (async () => {
      this.lost ??= new InstarError('engine_lost', 'The engine was closed.')
      this.post({ type: 'close' })
      this.failAll(this.lost)
      await this.exited
    })()
    return this.closed
  }

  private admit(adapter: AdapterSha): void {
    if (this.lost) throw this.lost
    if (adapter !== null && !this.adapters.has(adapter)) throw new InstarError('unknown_adapter', `No adapter ${adapter} is loaded.`, { adapter })
    if (this.open.size >= this.limit) throw new InstarError('overloaded', `${this.open.size} requests are before this one.`, { waiting: this.open.size - this.rows })
  }

  private submit(key: number, request: JobRequest): void {
    this.post({ type: 'submit', key, request })
  }

  private post(message: ToWorker): void {
    this.worker.postMessage(message)
  }

  private hear(message: FromWorker): void {
    if (message.type === 'events') for (const event of message.events) this.tell(event)
    else if (message.type === 'loaded') {
      const call = this.calls.get(message.call)
      this.calls.delete(message.call)
      if (message.error) call?.reject(fromPlain(message.error))
      else call?.resolve()
    } else if (message.type === 'failed') this.lose(message.error.message)
  }

  private tell(event: BatchEvent): void {
    const open = this.open.get(event.key)
    if (!open) return
    if (event.type === 'error') {
      this.open.delete(event.key)
      const error = fromPlain(event)
      if (open.type === 'score') open.reject(error)
      else {
        open.detach()
        open.queue.fail(error)
      }
    } else if (event.type === 'score' && open.type === 'score') {
      this.open.delete(event.key)
      open.resolve(event.logprobs)
    } else if (event.type === 'pieces' && open.type === 'generate') {
      if (event.tokens.length > 0) open.queue.push({ type: 'tokens', tokens: event.tokens })
      if (!event.end) return
      this.open.delete(event.key)
      open.detach()
      open.queue.push({ type: 'end', ...event.end })
      open.queue.end()
    }
  }

  private lose(reason: string, cause?: Error): void {
    this.lost ??= new InstarError('engine_lost', reason, {}, cause ? { cause } : {})
    this.failAll(this.lost)
  }

  private failAll(error: InstarError): void {
    for (const open of this.open.values()) {
      if (open.type === 'score') open.reject(error)
      else {
        open.detach()
        open.queue.fail(error)
      }
    }
    this.open.clear()
    for (const call of this.calls.values()) call.reject(error)
    this.calls.clear()
  }
}

/** Resolves when the model is in memory; rejects with the reason where it cannot be. */
export async function startServing(options: ServingOptions): Promise<ServingEngine> {
  const { queue, ...all } = { ...DEFAULTS, ...options }
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: all satisfies WorkerOptions })
  const ready = await new Promise<FromWorker>((resolve, reject) => {
    const fail = (error: Error) => reject(new InstarError('engine_lost', `The thread of the model did not start: ${error.message}`, {}, { cause: error }))
    worker.once('error', fail)
    worker.once('message', (message: FromWorker) => {
      worker.off('error', fail)
      resolve(message)
    })
  })
  if (ready.type === 'ready') return new EmbeddedServing(worker, ready.capabilities, { rows: all.rows, queue })
  await worker.terminate()
  throw ready.type === 'failed' ? fromPlain(ready.error) : new InstarError('internal', `The thread of the model began with ${ready.type}.`)
}
