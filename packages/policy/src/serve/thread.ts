/**
 * A worker thread with restart. If it ends unexpectedly (out of memory, a crash), its current work is lost and a new
 * thread is started after a back-off. Callers queue requests meanwhile and post them in `up`. If the next start fails
 * or takes longer than `waitMs`, requests are refused until a thread is running.
 */
import type { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import { fromPlain, type PlainError } from '@instar/events/plain-error'
import type { Exit } from './protocol.ts'

/**
 * `backoffMs`: delays before the first, second, … restart; the last one repeats. `waitMs`: how long requests are queued
 * for a restart. `graceMs`: how long `close` waits for the current work; afterwards the thread exits at its next step.
 */
export type ThreadSettings = { backoffMs: readonly number[]; waitMs: number; graceMs: number }

export const THREAD_DEFAULTS: ThreadSettings = { backoffMs: [100, 500, 2000, 10_000], waitMs: 30_000, graceMs: 2000 }

/** A thread that has run for this long resets the back-off. */
const STABLE_MS = 60_000

/** Longer than any step. The process no longer waits for a thread that has not exited by then. */
const EXIT_MS = 10_000

/** The first message is `ready` or `failed`; a later `failed` is the last message. */
type ThreadPorts<Out, Ready> = {
  /** Name of the thread, as the subject of error messages. */
  name: string
  /** Starts a thread; a later one gets the adapters that are loaded at that time. */
  spawn(): Worker
  /**
   * Whether the engine of the thread is native code. `Worker.terminate` during a native call ends the whole process (an
   * uncaught C++ exception), so such a thread gets the message `exit` instead.
   */
  native(ready: Ready | null): boolean
  receive(message: Out): void
  /** Called when current and queued work is lost. `atWork`: the thread that ended was up, not one that was to start. */
  lost(error: InstarError, atWork: boolean): void
  /** The reason why a new thread must not replace the first one, such as a changed base model; null: it may. */
  differs(first: Ready, again: Ready): string | null
  /** Called when queued work may be posted. */
  up(): void
}

type RunningThread = { worker: Worker; exited: Promise<void>; native: boolean }
type FirstMessage = { type: 'ready' } | { type: 'failed'; error: PlainError }

export class Thread<In, Out extends { type: string }, Ready extends Out & { type: 'ready' }> {
  private readonly ports: ThreadPorts<Out, Ready>
  private readonly settings: ThreadSettings
  private current: RunningThread | null = null
  private first: Ready | null = null
  private isUp = false
  private upSince = 0
  private restarts = 0
  /** Why the thread is down. */
  private downReason: InstarError | null = null
  /** Whether requests are refused while the thread is down. */
  private refuses = false
  private restartTimer: NodeJS.Timeout | null = null
  private waitTimer: NodeJS.Timeout | null = null
  private closing: Promise<void> | null = null

  constructor(ports: ThreadPorts<Out, Ready>, settings: ThreadSettings) {
    this.ports = ports
    this.settings = settings
  }

  /** Rejects with the reason if the thread does not start, or with `aborted`; no thread is then running. */
  async start(signal?: AbortSignal): Promise<Ready> {
    const ready = await this.launch(signal)
    this.first = ready
    this.markUp()
    return ready
  }

  /** Why the thread is down; null while it is up. */
  problem(): InstarError | null {
    return this.isUp ? null : this.downReason
  }

  /** Why a call is refused; null: it is posted now or in `up`. */
  refusal(): InstarError | null {
    return this.refuses ? this.downReason : null
  }

  /** Posts a message; no effect while the thread is down. */
  post(message: In): void {
    if (this.isUp) this.current?.worker.postMessage(message)
  }

  /** `last`: the message that asks the thread to exit. After the grace period it is stopped, and its work is lost. */
  close(last: In): Promise<void> {
    this.closing ??= this.end(last)
    return this.closing
  }

  private async end(last: In): Promise<void> {
    const { current, isUp } = this
    this.isUp = false
    this.refuses = true
    this.downReason = new InstarError('engine_lost', `${this.ports.name} was closed.`)
    if (this.restartTimer) clearTimeout(this.restartTimer)
    this.clearWaitTimer()
    if (current && isUp) {
      current.worker.postMessage(last)
      await within(current.exited, this.settings.graceMs)
    }
    if (current) await this.stop(current)
    this.ports.lost(this.downReason, false)
  }

  private async stop({ worker, exited, native }: RunningThread): Promise<void> {
    worker.postMessage({ type: 'exit' } satisfies Exit)
    if (!native) await worker.terminate()
    if (!(await within(exited, EXIT_MS))) worker.unref()
  }

  /** Starts a thread and waits for its first message. */
  private async launch(signal?: AbortSignal): Promise<Ready> {
    const { name } = this.ports
    const aborted = (): InstarError =>
      new InstarError('aborted', `The start of ${name} was aborted.`, {}, { cause: signal?.reason })
    if (signal?.aborted) throw aborted()
    const worker = this.ports.spawn()
    const exited = Promise.withResolvers<void>()
    const thread: RunningThread = { worker, exited: exited.promise, native: this.ports.native(null) }
    this.current = thread
    const first = Promise.withResolvers<Out & FirstMessage>()
    let received = false
    const onEnd = (reason: string, cause?: Error): void => {
      const error = new InstarError('engine_lost', reason, {}, cause ? { cause } : {})
      first.reject(error)
      if (this.current === thread) this.onLost(error)
    }
    worker.on('message', (message: Out & FirstMessage) => {
      if (!received) first.resolve(message)
      else if (message.type === 'failed') onEnd(message.error.message)
      else if (this.current === thread) this.ports.receive(message)
      received = true
    })
    worker.on('error', (error: Error) => {
      onEnd(`${name} ended: ${error.message}`, error)
    })
    worker.once('exit', () => {
      onEnd(`${name} has ended.`)
      exited.resolve()
    })
    const onAbort = (): void => {
      first.reject(aborted())
    }
    signal?.addEventListener('abort', onAbort)
    try {
      const message: FirstMessage = await first.promise
      if (message.type === 'failed') throw fromPlain(message.error)
      if (message.type !== 'ready')
        throw new InstarError('internal', `The first message of ${name} was not of type ready.`)
      const ready = message as Ready
      thread.native = this.ports.native(ready)
      return ready
    } catch (error) {
      this.current = null
      await this.stop(thread)
      throw error
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  private markUp(): void {
    this.isUp = true
    this.downReason = null
    this.refuses = false
    this.upSince = performance.now()
    this.clearWaitTimer()
    this.ports.up()
  }

  private clearWaitTimer(): void {
    if (this.waitTimer) clearTimeout(this.waitTimer)
    this.waitTimer = null
  }

  private onLost(error: InstarError): void {
    const { current, isUp } = this
    if (this.closing) return
    this.current = null
    this.isUp = false
    // A thread that reported a failure is still running.
    current?.worker.postMessage({ type: 'exit' } satisfies Exit)
    this.downReason = error
    this.ports.lost(error, isUp)
    if (!isUp) return
    if (performance.now() - this.upSince >= STABLE_MS) this.restarts = 0
    this.waitTimer = setTimeout(() => {
      this.refuse(
        new InstarError(
          'engine_lost',
          `${error.message} It has not been restarted after ${this.settings.waitMs / 1000} s.`,
        ),
      )
    }, this.settings.waitMs)
    this.scheduleRestart()
  }

  private refuse(error: InstarError): void {
    this.clearWaitTimer()
    this.refuses = true
    this.downReason = error
    this.ports.lost(error, false)
  }

  private scheduleRestart(): void {
    const { backoffMs } = this.settings
    const delay = backoffMs[Math.min(this.restarts++, backoffMs.length - 1)] ?? 0
    this.restartTimer = setTimeout(() => {
      this.restart().catch((error: unknown) => {
        if (this.closing) return
        this.refuse(
          new InstarError(
            'engine_lost',
            `${this.ports.name} could not be restarted: ${error instanceof Error ? error.message : String(error)}`,
            {},
            { cause: error },
          ),
        )
        this.scheduleRestart()
      })
    }, delay)
  }

  private async restart(): Promise<void> {
    const ready = await this.launch()
    const difference = this.first && this.ports.differs(this.first, ready)
    if (difference) {
      const { current } = this
      this.current = null
      if (current) await this.stop(current)
      throw new InstarError('engine_lost', difference)
    }
    this.markUp()
  }
}

/** Whether `done` resolves within `ms` milliseconds. */
async function within(done: Promise<void>, ms: number): Promise<boolean> {
  const timeout = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => {
    timeout.resolve(false)
  }, ms)
  try {
    return await Promise.race([done.then(() => true), timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
