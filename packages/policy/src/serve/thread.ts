/**
 * A worker thread that comes back. When it dies (out of memory, a crash) what was under way is lost, and
 * another is started after a pause that grows while they die soon. Its users hold what comes in meanwhile and
 * post it on `up`; when the next start fails, or takes longer than `waitMs`, nothing is held until it is up.
 */
import type { Worker } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import { fromPlain, type PlainError } from '@instar/events/plain-error'
import type { Cut } from './protocol.ts'

/**
 * Milliseconds. `backoffMs`: pauses before the first, second, … start after a loss; the last one repeats.
 * `graceMs`: what `close` gives to the work under way. A cut is then heard at the next step of the arithmetic.
 */
export type ThreadSettings = { backoffMs: readonly number[]; waitMs: number; graceMs: number }

export const THREAD_DEFAULTS: ThreadSettings = { backoffMs: [100, 500, 2000, 10_000], waitMs: 30_000, graceMs: 2000 }

/** A thread that was up for this long has not died of its start: the pauses begin anew. */
const STEADY_MS = 60_000

/** No step of the arithmetic takes longer; a thread that is still in one is left to itself. */
const STEP_MS = 10_000

/** The first message is `ready` or `failed`; a later `failed` is the thread's last word. */
export type ThreadPorts<Out, Ready> = {
  /** As the subject of a sentence. */
  name: string
  /** A thread that takes over from one before it is given what that one held. */
  spawn(): Worker
  /**
   * Whether its engine is native code, as far as is known. `Worker.terminate` in the midst of that ends the whole
   * process (a C++ exception that nobody catches): such a thread is asked to end instead, by `cut`.
   */
  native(ready: Ready | null): boolean
  hear(message: Out): void
  /** What was under way, and what is held, will have no answer. */
  lost(error: InstarError): void
  /** Why a thread that started again must not go on from the first one; null: it may. */
  differs(first: Ready, again: Ready): string | null
  /** What is held may be posted. */
  up(): void
}

type Life = { worker: Worker; exited: Promise<void>; native: boolean }
type First = { type: 'ready' } | { type: 'failed'; error: PlainError }

export class Thread<In, Out extends { type: string }, Ready extends Out & { type: 'ready' }> {
  private readonly ports: ThreadPorts<Out, Ready>
  private readonly settings: ThreadSettings
  private life: Life | null = null
  private first: Ready | null = null
  private isUp = false
  private upSince = 0
  private deaths = 0
  /** Why it is away. */
  private away: InstarError | null = null
  /** Whether what comes in while it is away is refused. */
  private refuses = false
  private respawn: NodeJS.Timeout | null = null
  private patience: NodeJS.Timeout | null = null
  private closing: Promise<void> | null = null

  constructor(ports: ThreadPorts<Out, Ready>, settings: ThreadSettings) {
    this.ports = ports
    this.settings = settings
  }

  /** Rejects with the reason where the thread does not start, or with `aborted`; nothing is left running. */
  async start(signal?: AbortSignal): Promise<Ready> {
    const ready = await this.launch(signal)
    this.first = ready
    this.rise()
    return ready
  }

  /** Why nothing is answered now; null while it is up. */
  problem(): InstarError | null {
    return this.isUp ? null : this.away
  }

  /** Why a call must be refused; null: it is posted now or on `up`. */
  refusal(): InstarError | null {
    return this.refuses ? this.away : null
  }

  /** Nothing while it is away. */
  post(message: In): void {
    if (this.isUp) this.life?.worker.postMessage(message)
  }

  /** `last` asks the thread to end by itself; after the grace period it is cut. Calls that wait are lost then. */
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

  private async cut({ worker, exited, native }: Life): Promise<void> {
    worker.postMessage({ type: 'cut' } satisfies Cut)
    if (!native) await worker.terminate()
    if (!(await within(exited, STEP_MS))) worker.unref()
  }

  /** Starts a thread and waits for its first words. */
  private async launch(signal?: AbortSignal): Promise<Ready> {
    const { name } = this.ports
    const givenUp = (): InstarError =>
      new InstarError('aborted', `${name} was given up while it started.`, {}, { cause: signal?.reason })
    if (signal?.aborted) throw givenUp()
    const worker = this.ports.spawn()
    const exited = Promise.withResolvers<void>()
    const life: Life = { worker, exited: exited.promise, native: this.ports.native(null) }
    this.life = life
    const words = Promise.withResolvers<Out & First>()
    let heard = false
    const ends = (reason: string, cause?: Error): void => {
      const error = new InstarError('engine_lost', reason, {}, cause ? { cause } : {})
      words.reject(error)
      if (this.life === life) this.lose(error)
    }
    worker.on('message', (message: Out & First) => {
      if (!heard) words.resolve(message)
      else if (message.type === 'failed') ends(message.error.message)
      else if (this.life === life) this.ports.hear(message)
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
      const said: First = await words.promise
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
    // One that failed in words is still there.
    life?.worker.postMessage({ type: 'cut' } satisfies Cut)
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
