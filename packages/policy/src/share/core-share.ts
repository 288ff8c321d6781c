/**
 * What the threads of serving and learning in one process share: whether learning has work, and its share of the time.
 * In separate processes there is no such memory, and the priorities of the operating system decide.
 */
import { availableParallelism } from 'node:os'
import { ShareLedger } from './ledger.ts'

/** Learning calls in progress; the share in 1/1000; ms that serving has paused; threads of the learning engine. */
const WORK = 0
const SHARE = 1
const PAUSED = 2
const THREADS = 3
const FIELDS = 4

/** Memory that is passed to `startServing` and `startLearning`. */
export type CoreShare = SharedArrayBuffer

/** `share`: the part of the time, 0…0.9, in which serving leaves the cores to learning while that has work. */
export const createCoreShare = (share: number): CoreShare => {
  const memory = new SharedArrayBuffer(FIELDS * Int32Array.BYTES_PER_ELEMENT)
  Atomics.store(new Int32Array(memory), SHARE, Math.round(Math.min(0.9, Math.max(0, share)) * 1000))
  return memory
}

/** Milliseconds that serving has paused for learning. */
export const pausedMs = (memory: CoreShare): number => Atomics.load(new Int32Array(memory), PAUSED)

/** Learning's side. */
export class LearningWork {
  private readonly fields: Int32Array

  constructor(memory: CoreShare, threads: number) {
    this.fields = new Int32Array(memory)
    Atomics.store(this.fields, THREADS, threads)
  }

  begin(): void {
    Atomics.add(this.fields, WORK, 1)
  }

  end(): void {
    Atomics.sub(this.fields, WORK, 1)
    Atomics.notify(this.fields, WORK)
  }
}

/** The learning thread has ended, and its calls with it. */
export const endWork = (memory: CoreShare): void => {
  const fields = new Int32Array(memory)
  Atomics.store(fields, WORK, 0)
  Atomics.notify(fields, WORK)
}

/**
 * Serving's side. `threads`: of the serving engine. Where each thread of both engines has a core, serving does not
 * pause.
 */
export class ServingShare {
  private readonly fields: Int32Array | null
  private readonly ledger = new ShareLedger()
  private readonly threads: number
  private readonly cores: number
  private endedAt: number | null = null

  constructor(memory: CoreShare | null, threads: number, cores = availableParallelism()) {
    this.fields = memory && new Int32Array(memory)
    this.threads = threads
    this.cores = cores
  }

  /** Call when a step begins, `at` ms on a monotonic clock. */
  begins(at: number): void {
    if (this.endedAt !== null) this.ledger.idle(at - this.endedAt)
  }

  /** Call after a step of `ms`. Resolves after the pause that is due, or as soon as learning has no work. */
  async ended(ms: number, now: () => number = () => performance.now()): Promise<void> {
    const { fields } = this
    if (!fields || this.threads + Atomics.load(fields, THREADS) <= this.cores) return
    const work = Atomics.load(fields, WORK)
    if (work <= 0) {
      this.ledger.reset()
      this.endedAt = null
      return
    }
    this.endedAt = now()
    const pause = this.ledger.computed(ms, Atomics.load(fields, SHARE) / 1000)
    if (pause === 0) return
    const waiting = Atomics.waitAsync(fields, WORK, work, pause)
    if (waiting.async) await waiting.value
    const at = now()
    this.ledger.idle(at - this.endedAt)
    Atomics.add(fields, PAUSED, Math.round(at - this.endedAt))
    this.endedAt = at
  }
}
