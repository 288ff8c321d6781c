/** Feedback requests that run, with the Idempotency-Keys that they use. */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'

/** The first feedback of an Idempotency-Key is final. */
export const otherFeedback = (): InstarError =>
  new InstarError(
    'bad_request',
    'This Idempotency-Key was sent with other feedback before; other feedback needs another key.',
    { field: 'idempotency-key' },
  )

export class RunningFeedback {
  private readonly byId = new Map<string, { content: string; done: Promise<unknown> }>()
  private readonly most: number
  private count = 0

  /** `most`: requests that may run at a time. */
  constructor(most: number) {
    this.most = most
  }

  get size(): number {
    return this.count
  }

  /** Throws `log_full` if too many requests run. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.count >= this.most)
      throw new InstarError('log_full', `${this.count} pieces of feedback wait for the log.`, { waiting: this.count })
    this.count += 1
    try {
      return await work()
    } finally {
      this.count -= 1
    }
  }

  /**
   * Runs `work`, or waits for the running work with the same id and returns its result. Throws `bad_request` if that
   * one has another content, and `idempotency_key_in_use` if it takes longer than `waitMs`.
   */
  async once<T>(id: string, content: string, waitMs: number, work: () => Promise<T>): Promise<T> {
    const running = this.byId.get(id)
    if (running && running.content !== content) throw otherFeedback()
    if (running) return within(running.done as Promise<T>, waitMs)
    const done = work().finally(() => this.byId.delete(id))
    this.byId.set(id, { content, done })
    return done
  }
}

const within = async <T>(done: Promise<T>, ms: number): Promise<T> => {
  const stop = new AbortController()
  const late = async (): Promise<never> => {
    await delay(ms, undefined, { signal: stop.signal })
    throw new InstarError('idempotency_key_in_use', 'The request with this Idempotency-Key is still being answered.', {
      field: 'idempotency-key',
    })
  }
  try {
    return await Promise.race([done, late()])
  } finally {
    stop.abort()
  }
}
