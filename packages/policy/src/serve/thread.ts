/**
 * A worker thread that is restarted. If it dies (out of memory, a crash), its current work is lost and another thread
 * is started after a back-off. Callers queue requests meanwhile and post them on `up`; if the next start fails or
 * takes longer than `waitMs`, requests are refused until a thread is up.
 */
import type { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import { fromPlain, type PlainError } from '@instar/events/plain-error'
import type { Exit } from './protocol.ts'

/**
 * Milliseconds. `backoffMs`: delays before the first, second, … restart; the last one repeats. `graceMs`: time that
 * `close` gives to the current work. After that the thread exits at its next step.
 */
export type ThreadSettings = { backoffMs: readonly number[]; waitMs: number; graceMs: number }

export const THREAD_DEFAULTS: ThreadSettings = { backoffMs: [100, 500, 2000, 10_000], waitMs: 30_000, graceMs: 2000 }

/** After this time the thread counts as started well: the back-off is reset. */
const STEADY_MS = 60_000

/** Longer than any step takes; a thread that has not exited by then is abandoned. */
const STEP_MS = 10_000

/** The first message is `ready` or `failed`; a later `failed` is the last message. */
export type ThreadPorts<Out, Ready> = {
  /** Name of the thread, as the subject of error messages. */
  name: string
  /** Starts a thread; one after the first gets the adapters of the thread before it. */
  spawn(): Worker
  /**
   * Whether its engine is native code. `Worker.terminate` during a native call ends the whole process (an uncaught C++
   * exception), so such a thread is asked to exit by the message `exit`.
   */
  native(ready: Ready | null): boolean
  receive(message: Out): void
  /** Called when current and queued work is lost. */
  lost(error: InstarError): void
  /** Why a restarted thread must not replace the first one, for example another base model; null: it may. */
  differs(first: Ready, again: Ready): string | null
  /** Called when queued work may be posted. */
  up(): void
}

type RunningThread = { worker: Worker; exited: Promise<void>; native: boolean }
type FirstMessage = { type: 'ready' } | { type: 'failed'; error: PlainError }

export class Thread<In, Out extends { type: string }, Ready extends Out & { type: 'ready' }> {
  private readonly ports: ThreadPorts<Out, Ready>
  private readonly settings: ThreadSettings
  private life: RunningThread | null = null
  private first: Ready | null = null
  private isUp = false
  private upSince = 0
  private deaths = 0
  /** Why the thread is down. */
  private away: InstarError | null = null
  /** Whether work is refused while the thread is down. */
  private refuses = false
  private respawn: NodeJS.Timeout | null = null
  private patience: NodeJS.Timeout | null = null
  private closing: Promise<void> | null = null

  constructor(ports: ThreadPorts<Out, Ready>, settings: ThreadSettings) {
    this.ports = ports
    this.settings = settings
  }

  /** Rejects with the reason if the thread does not start, or with `aborted`; no thread is then running. */
  async start(signal?: AbortSignal): Promise<Ready> {
    const ready = await this.launch(signal)
    this.first = ready
    this.rise()
    return ready
  }

  /** Why the thread is down; null while it is up. */
  problem(): InstarError | null {
    return this.isUp ? null : this.away
  }

  /** Why a call is refused; null: it is posted now or on `up`. */
  refusal(): InstarError | null {
    return this.refuses ? this.away : null
  }

  /** Posts a message; no effect while the thread is down. */
  post(message: In): void {
    if (this.isUp) this.life?.worker.postMessage(message)
  }

  /** `last` asks the thread to exit; after the grace period it is terminated and waiting calls are lost. */
  close(last: In): Promise<void> {
    this.closing ??= this.end(last)
    return this.closing
  }

  private async end(last: In): Promise<void> {
    const { life, isUp } = this
    this.isUp = false
    this.refuses = true
    this.away = new InstarError('engine_lost', `${this.ports.name} was closed.`)
    if (this.respawn) clearTimeout(this.respawn)
    this.calm()
    if (life && isUp) {
      life.worker.postMessage(last)
      await within(life.exited, this.settings.graceMs)
    }
    if (life) await this.cut(life)
    this.ports.lost(this.away)
  }

  private async cut({ worker, exited, native }: RunningThread): Promise<void> {
    worker.postMessage({ type: 'exit' } satisfies Exit)
    if (!native) await worker.terminate()
    if (!(await within(exited, STEP_MS))) worker.unref()
  }

  /** Starts a thread and waits for its first message. */
  private async launch(signal?: AbortSignal): Promise<Ready> {
    const { name } = this.ports
    const givenUp = (): InstarError =>
      new InstarError('aborted', `${name} was given up while it started.`, {}, { cause: signal?.reason })
    if (signal?.aborted) throw givenUp()
    const worker = this.ports.spawn()
    const exited = Promise.withResolvers<void>()
    const life: RunningThread = { worker, exited: exited.promise, native: this.ports.native(null) }
    this.life = life
    const words = Promise.withResolvers<Out & FirstMessage>()
    let heard = false
    const ends = (reason: string, cause?: Error): void => {
      const error = new InstarError('engine_lost', reason, {}, cause ? { cause } : {})
      words.reject(error)
      if (this.life === life) this.lose(error)
    }
    worker.on('message', (message: Out & FirstMessage) => {
      if (!heard) words.resolve(message)
      else if (message.type === 'failed') ends(message.error.message)
      else if (this.life === life) this.ports.receive(message)
      heard = true
    })
    worker.on('error', (error: Error) => {
      ends(`${name} ended: ${error.message}`, error)
    })
    worker.once('exit', () => {
      ends(`${name} has ended.`)
      exited.resolve()
    })
    const giveUp = (): void => {
      words.reject(givenUp())
    }
    signal?.addEventListener('abort', giveUp)
    try {
      const said: FirstMessage = await words.promise
      if (said.type === 'failed') throw fromPlain(said.error)
      if (said.type !== 'ready') throw new InstarError('internal', `${name} began with other words than ready.`)
      const ready = said as Ready
      life.native = this.ports.native(ready)
      return ready
    } catch (error) {
      this.life = null
      await this.cut(life)
      throw error
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
  }

  private rise(): void {
    this.isUp = true
    this.away = null
    this.refuses = false
    this.upSince = performance.now()
    this.calm()
    this.ports.up()
  }

  private calm(): void {
    if (this.patience) clearTimeout(this.patience)
    this.patience = null
  }

  private lose(error: InstarError): void {
    const { life, isUp } = this
    if (this.closing) return
    this.life = null
    this.isUp = false
    // A thread that reported its failure still runs.
    life?.worker.postMessage({ type: 'exit' } satisfies Exit)
    this.away = error
    this.ports.lost(error)
    if (!isUp) return
    if (performance.now() - this.upSince >= STEADY_MS) this.deaths = 0
    this.patience = setTimeout(() => {
      this.refuse(
        new InstarError('engine_lost', `${error.message} It is not back after ${this.settings.waitMs / 1000} s.`),
      )
    }, this.settings.waitMs)
    this.comeBack()
  }

  private refuse(error: InstarError): void {
    this.calm()
    this.refuses = true
    this.away = error
    this.ports.lost(error)
  }

  private comeBack(): void {
    const { backoffMs } = this.settings
    const pause = backoffMs[Math.min(this.deaths++, backoffMs.length - 1)] ?? 0
    this.respawn = setTimeout(() => {
      this.again().catch((error: unknown) => {
        if (this.closing) return
        this.refuse(
          new InstarError(
            'engine_lost',
            `${this.ports.name} does not start again: ${error instanceof Error ? error.message : String(error)}`,
            {},
            { cause: error },
          ),
        )
        this.comeBack()
      })
    }, pause)
  }

  private async again(): Promise<void> {
    const ready = await this.launch()
    const difference = this.first && this.ports.differs(this.first, ready)
    if (difference) {
      const { life } = this
      this.life = null
      if (life) await this.cut(life)
      throw new InstarError('engine_lost', difference)
    }
    this.rise()
  }
}

/** Whether `done` resolved within `ms`. */
async function within(done: Promise<void>, ms: number): Promise<boolean> {
  const late = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => {
    late.resolve(false)
  }, ms)
  try {
    return await Promise.race([done.then(() => true), late.promise])
  } finally {
    clearTimeout(timer)
  }
}
