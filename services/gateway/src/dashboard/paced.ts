/**
 * Work of the event loop that no client waits for at the model: one at a time, in the order of arrival. After each the loop is
 * left to others for several times as long as the work took, so that many of them do not hold up answers.
 */
import { InstarError } from '@instar/events'
import { setTimeout as pause } from 'node:timers/promises'

/** Of the time, work takes at most one part in `1 + REST`. */
const REST = 4

export class Paced {
  private readonly most: number
  private readonly monotonic: () => number
  private last: Promise<void> = Promise.resolve()
  private held = 0

  /** `most`: works that wait, with the one that runs. */
  constructor(most: number, monotonic: () => number) {
    this.most = most
    this.monotonic = monotonic
  }

  get size(): number {
    return this.held
  }

  /** Runs `work` after those before it, unless `gone` is aborted by then. Throws `overloaded`, `aborted`, or as `work`. */
  async run<T>(gone: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.held >= this.most)
      throw new InstarError('overloaded', `More than ${this.most} texts are asked for.`, { retryAfterMs: 1000 })
    this.held += 1
    const turn = this.last
    const rested = Promise.withResolvers<void>()
    this.last = rested.promise
    await turn
    const from = this.monotonic()
    try {
      if (gone.aborted) throw new InstarError('aborted', 'The client closed the connection.')
      return await work()
    } finally {
      this.held -= 1
      void pause(Math.ceil(REST * (this.monotonic() - from))).then(rested.resolve)
    }
  }
}
