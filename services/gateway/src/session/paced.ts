/**
 * Reading of large texts from the log, which occupies the event loop: one at a time. After each the loop is left to others for
 * several times as long as it took, so that many of them do not hold up answers.
 */
import { InstarError } from '@instar/events'
import { setTimeout as pause } from 'node:timers/promises'

/** Of the time, works take at most one part in `1 + REST`. */
const REST = 4
/** Works that wait, with the one that runs. A browser asks for six texts at a time. */
export const MOST_READINGS = 64

type Waiting = { key: string | null; start: () => void }

export class Paced {
  private readonly most: number
  private readonly monotonic: () => number
  /** In the order of arrival. */
  private readonly waiting: Waiting[] = []
  /** Works that wait or run, by key. */
  private readonly held = new Map<string | null, number>()
  private busy = false
  private last: string | null = null

  constructor(monotonic: () => number, most = MOST_READINGS) {
    this.monotonic = monotonic
    this.most = most
  }

  get size(): number {
    return [...this.held.values()].reduce((sum, count) => sum + count, 0)
  }

  /**
   * Runs `work` after those before it, unless `gone` is aborted by then; of those that wait, one of another key than the last
   * comes first. A key may have half of `most`. Throws `overloaded`, `aborted`, or as `work`.
   */
  async run<T>(key: string | null, gone: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const own = this.held.get(key) ?? 0
    if (this.size >= this.most || own >= this.most / 2)
      throw new InstarError('overloaded', 'Too many large texts are being read.', { retryAfterMs: 1000 })
    this.held.set(key, own + 1)
    const turn = Promise.withResolvers<void>()
    this.waiting.push({ key, start: turn.resolve })
    this.next()
    await turn.promise
    const from = this.monotonic()
    try {
      if (gone?.aborted) throw new InstarError('aborted', 'The client closed the connection.')
      return await work()
    } finally {
      const left = this.held.get(key)! - 1
      if (left > 0) this.held.set(key, left)
      else this.held.delete(key)
      void this.rest(REST * (this.monotonic() - from))
    }
  }

  private async rest(ms: number): Promise<void> {
    await pause(Math.ceil(ms))
    this.busy = false
    this.next()
  }

  private next(): void {
    const [first] = this.waiting
    if (this.busy || !first) return
    const chosen = this.waiting.find(({ key }) => key !== this.last) ?? first
    this.waiting.splice(this.waiting.indexOf(chosen), 1)
    this.busy = true
    this.last = chosen.key
    chosen.start()
  }
}
