/** The embedded `ServingEngine`: the model runs in a worker thread, to which requests are posted as messages. */
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import { keyOf } from '@instar/grammar'
import type {
  Adapter,
  AdapterSha,
  Capabilities,
  Constraint,
  GenerateRequest,
  GeneratedPiece,
  Load,
  Scores,
  ScoreRequest,
  ServingEngine,
} from '@instar/engine/port'
import { checkGenerate, checkScore } from './check.ts'
import type { BatchEvent, JobRequest } from './job.ts'
import { PieceQueue } from './pieces.ts'
import { fromPlain } from '@instar/events/plain-error'
import type { FromWorker, ToWorker, WorkerData, WorkerOptions } from './protocol.ts'
import { Thread, THREAD_DEFAULTS, type ThreadSettings } from './thread.ts'

/**
 * `rows`: most requests in a batch. `slots`: most adapters in a batch. `queue`: most requests that wait for a row.
 * `signal` aborts the start only.
 */
export type ServingOptions = { model: string; signal?: AbortSignal } & Partial<
  Omit<WorkerOptions, 'model'> & ThreadSettings & { queue: number }
>

const DEFAULTS = {
  ...THREAD_DEFAULTS,
  engine: 'auto',
  threads: 2,
  rows: 8,
  slots: 4,
  prefillBusy: 64,
  prefillIdle: 256,
  queue: 256,
  share: null,
} as const

/** Most constraints whose successful `check` is cached. */
const MOST_CHECKED = 64

type Ready = Extract<FromWorker, { type: 'ready' }>
type OpenRequest = { request: JobRequest } & (
  | { type: 'generate'; queue: PieceQueue; detach(): void }
  | { type: 'score'; resolve(scores: Scores): void; reject(error: InstarError): void; detach(): void }
)
type PendingCall = { message: Extract<ToWorker, { call: number }>; resolve(): void; reject(error: InstarError): void }

/**
 * If the thread ends unexpectedly, open requests fail with `engine_lost`. Later requests are queued for the next
 * thread, which starts with the loaded adapters.
 */
class EmbeddedServing implements ServingEngine {
  private readonly thread: Thread<ToWorker, FromWorker, Ready>
  private readyCapabilities: Capabilities | null = null
  private readonly rows: number
  private readonly limit: number
  private readonly adapters = new Map<string, Adapter>()
  /** The adapters that were passed to the current thread at its start. */
  private startAdapters: Adapter[] = []
  private readonly open = new Map<number, OpenRequest>()
  private readonly calls = new Map<number, PendingCall>()
  /** sha256 of the keys of constraints that passed `check`. */
  private readonly checked = new Set<string>()
  private next = 1

  constructor(options: WorkerOptions & { queue: number }, settings: ThreadSettings) {
    const { queue, ...workerOptions } = options
    this.rows = options.rows
    this.limit = options.rows + queue
    this.thread = new Thread(
      {
        name: 'The model thread',
        spawn: () => {
          this.startAdapters = [...this.adapters.values()]
          return new Worker(new URL('./worker.ts', import.meta.url), {
            workerData: { ...workerOptions, adapters: this.startAdapters } satisfies WorkerData,
          })
        },
        native: (ready) => (ready?.capabilities.engine ?? options.engine) !== 'wasm',
        receive: (message) => {
          this.receive(message)
        },
        lost: (error) => {
          this.failAll(error)
        },
        differs: (first, again) =>
          first.base === again.base
            ? null
            : `The model in ${options.model} has changed since the start: its sha256 was ${first.base} and is now ${again.base}.`,
        up: () => {
          this.postQueued()
        },
      },
      settings,
    )
  }

  async start(signal?: AbortSignal): Promise<void> {
    this.readyCapabilities = (await this.thread.start(signal)).capabilities
  }

  capabilities(): Capabilities {
    if (!this.readyCapabilities) throw new Error('the engine was not started')
    return this.readyCapabilities
  }

  lost(): string | null {
    return this.thread.problem()?.message ?? null
  }

  pending(): Load {
    return { running: Math.min(this.open.size, this.rows), waiting: Math.max(0, this.open.size - this.rows) }
  }

  /** The bytes must not change afterwards, since they are also passed to the next thread. */
  async load(adapter: Adapter): Promise<void> {
    if (this.adapters.has(adapter.sha256)) return this.requireThread()
    await this.call((call) => ({ type: 'load', call, adapter }))
    this.adapters.set(adapter.sha256, adapter)
  }

  async unload(sha256: string): Promise<void> {
    if (this.adapters.delete(sha256)) this.thread.post({ type: 'unload', sha256 })
  }

  /**
   * Throws if the request is refused; later errors are thrown by the iterator. `hold` is not used: the thread sends tokens one
   * by one.
   */
  generate({ hold: _, ...request }: GenerateRequest, signal?: AbortSignal): AsyncIterable<GeneratedPiece> {
    this.admit(request.adapter)
    checkGenerate(request, this.capabilities())
    const key = this.next++
    const queue = new PieceQueue(() => this.abort(key))
    const detach = this.onAbort(key, signal, (error) => queue.fail(error))
    if (detach) this.submit(key, { type: 'generate', request: { kind: 'generate', ...request }, queue, detach })
    return queue
  }

  /** Compiles the constraint in the thread, which caches the result; this may take 0.1 s. */
  async check(constraint: Constraint): Promise<void> {
    const key = createHash('sha256').update(keyOf(constraint)).digest('hex')
    if (this.checked.has(key)) return
    await this.call((call) => ({ type: 'check', call, constraint }))
    this.checked.add(key)
    if (this.checked.size > MOST_CHECKED) this.checked.clear()
  }

  async score(request: ScoreRequest, signal?: AbortSignal): Promise<Float32Array> {
    return (await this.scoreWithTop({ ...request, topLogprobs: 0 }, signal)).logprobs
  }

  async scoreWithTop(
    { hold: _, ...request }: ScoreRequest & { topLogprobs: number },
    signal?: AbortSignal,
  ): Promise<Scores> {
    this.admit(request.adapter)
    checkScore(request, this.capabilities())
    if (request.completion.length === 0) return { logprobs: new Float32Array(0), top: [] }
    const key = this.next++
    return new Promise((resolve, reject) => {
      const detach = this.onAbort(key, signal, reject)
      if (detach) this.submit(key, { type: 'score', request: { kind: 'score', ...request }, resolve, reject, detach })
    })
  }

  /** Open requests fail with `engine_lost` immediately. */
  close(): Promise<void> {
    const closed = this.thread.close({ type: 'close' })
    this.failAll(this.thread.refusal() ?? new InstarError('engine_lost', 'The engine was closed.'))
    return closed
  }

  /** Throws the reason for which requests are currently refused, if any. */
  private requireThread(): void {
    const refusal = this.thread.refusal()
    if (refusal) throw refusal
  }

  private call(messageOf: (call: number) => PendingCall['message']): Promise<void> {
    this.requireThread()
    const message = messageOf(this.next++)
    return new Promise((resolve, reject) => {
      this.calls.set(message.call, { message, resolve, reject })
      this.thread.post(message)
    })
  }

  private admit(adapter: AdapterSha): void {
    this.requireThread()
    if (adapter !== null && !this.adapters.has(adapter))
      throw new InstarError('unknown_adapter', `The adapter ${adapter} is not loaded.`, { adapter })
    if (this.open.size >= this.limit)
      throw new InstarError('overloaded', `The engine has ${this.open.size} open requests, its limit.`, {
        waiting: this.open.size - this.rows,
      })
  }

  /** Ends an open request. Its answer, if it comes, is dropped. */
  private abort(key: number): void {
    const open = this.open.get(key)
    if (!open) return
    this.open.delete(key)
    open.detach()
    this.thread.post({ type: 'abort', key })
  }

  /** Returns a function that removes the listener; null if `signal` is aborted already. */
  private onAbort(
    key: number,
    signal: AbortSignal | undefined,
    fail: (error: InstarError) => void,
  ): (() => void) | null {
    const onAbort = (): void => {
      this.abort(key)
      fail(new InstarError('aborted', 'The request was aborted.', {}, { cause: signal?.reason }))
    }
    if (signal?.aborted) {
      onAbort()
      return null
    }
    signal?.addEventListener('abort', onAbort)
    return () => signal?.removeEventListener('abort', onAbort)
  }

  private submit(key: number, open: OpenRequest): void {
    this.open.set(key, open)
    this.thread.post({ type: 'submit', key, request: open.request })
  }

  /**
   * Posts the calls and requests that arrived while no thread was running, and then the unloads, since a request may
   * use an adapter that was unloaded after it.
   */
  private postQueued(): void {
    for (const { message } of this.calls.values()) this.thread.post(message)
    for (const [key, { request }] of this.open) this.thread.post({ type: 'submit', key, request })
    for (const { sha256 } of this.startAdapters)
      if (!this.adapters.has(sha256)) this.thread.post({ type: 'unload', sha256 })
    this.startAdapters = []
  }

  private receive(message: FromWorker): void {
    if (message.type === 'events') for (const event of message.events) this.deliver(event)
    else if (message.type === 'done') {
      const call = this.calls.get(message.call)
      this.calls.delete(message.call)
      if (message.error) call?.reject(fromPlain(message.error))
      else call?.resolve()
    }
  }

  private deliver(event: BatchEvent): void {
    const open = this.open.get(event.key)
    if (!open) return
    if (event.type === 'error') {
      this.open.delete(event.key)
      fail(open, fromPlain(event))
    } else if (event.type === 'score' && open.type === 'score') {
      this.open.delete(event.key)
      open.detach()
      open.resolve(event.scores)
    } else if (event.type === 'pieces' && open.type === 'generate') {
      if (event.tokens.length > 0) open.queue.push({ type: 'tokens', tokens: event.tokens })
      if (!event.end) return
      this.open.delete(event.key)
      open.detach()
      open.queue.push({ type: 'end', ...event.end })
      open.queue.end()
    }
  }

  private failAll(error: InstarError): void {
    for (const open of this.open.values()) fail(open, error)
    this.open.clear()
    for (const call of this.calls.values()) call.reject(error)
    this.calls.clear()
  }
}

const fail = (open: OpenRequest, error: InstarError): void => {
  open.detach()
  if (open.type === 'score') open.reject(error)
  else open.queue.fail(error)
}

/** Resolves when the model is loaded. Rejects with the error of the start, or with `aborted` when `signal` aborts. */
export async function startServing(options: ServingOptions): Promise<ServingEngine> {
  const { signal, backoffMs, waitMs, graceMs, ...rest } = { ...DEFAULTS, ...options }
  const engine = new EmbeddedServing(rest, { backoffMs, waitMs, graceMs })
  await engine.start(signal)
  return engine
}
