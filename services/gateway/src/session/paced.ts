/**
 * Work that occupies the event loop or the model's thread, as reading large texts from the log does: one at a time. After each
 * the loop is left to others for several times as long as it took, so that many of them do not hold up answers.
 */
import { InstarError } from '@instar/events'
import { setTimeout as pause } from 'node:timers/promises'

/** Of the time, works take at most one part in `1 + REST`. */
const REST = 4
/** Works that wait, with the one that runs. A browser asks for six texts at a time. */
export const MOST_READINGS = 64

/** Whose works share places: a key, or a caller of a group. A group has as many as a key; of them a caller may have half. */
export type PacedKey = string | null | { group: string; who: string }

type Waiting = { name: string; start: () => void }

const namesOf = (key: PacedKey): readonly { name: string; share: number }[] =>
  typeof key === 'object' && key !== null
    ? [
        { name: `group ${key.group}`, share: 2 },
        { name: `group ${key.group} ${key.who}`, share: 4 },
      ]
    : [{ name: key === null ? 'anyone' : `key ${key}`, share: 2 }]

export class Paced {
  private readonly most: number
  private readonly monotonic: () => number
  private readonly what: string
  /** In the order of arrival. */
  private readonly waiting: Waiting[] = []
  /** Works that wait or run, by name of a key, a group or a caller of one. */
  private readonly held = new Map<string, number>()
  private count = 0
  private busy = false
  private last: string | null = null

  /** `what`: of the works, for messages: "large texts are being read". */
  constructor(monotonic: () => number, most = MOST_READINGS, what = 'large texts are being read') {
    this.monotonic = monotonic
    this.most = most
    this.what = what
  }

  get size(): number {
    return this.count
  }

  /**
   * Runs `work` after those before it, unless `gone` is aborted by then, which drops it at once, with what it refers to; of
   * those that wait, one of another key than the last comes first. A key may have half of `most`, a caller of a group a
   * quarter. Throws `overloaded`, `aborted`, or as `work`.
   */
  async run<T>(key: PacedKey, gone: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const names = namesOf(key)
    if (this.count >= this.most || names.some(({ name, share }) => (this.held.get(name) ?? 0) >= this.most / share))
      throw new InstarError('overloaded', `Too many ${this.what}.`, { retryAfterMs: 1000 })
    this.change(names, 1)
    try {
      await this.turnOf(names.at(-1)!.name, gone)
      const from = this.monotonic()
      try {
        if (gone?.aborted) throw left()
        return await work()
      } finally {
        void this.rest(REST * (this.monotonic() - from))
      }
    } finally {
      this.change(names, -1)
    }
  }

  /** Resolves when the work may run. Throws `aborted` once `gone` is while it waits. */
  private async turnOf(name: string, gone: AbortSignal | undefined): Promise<void> {
    const turn = Promise.withResolvers<void>()
    const one = { name, start: turn.resolve }
    const leave = (): void => {
      const at = this.waiting.indexOf(one)
      if (at < 0) return
      this.waiting.splice(at, 1)
      turn.reject(left())
    }
    this.waiting.push(one)
    gone?.addEventListener('abort', leave, { once: true })
    this.next()
    if (gone?.aborted) leave()
    try {
      await turn.promise
    } finally {
      gone?.removeEventListener('abort', leave)
    }
  }

  private change(names: readonly { name: string }[], by: 1 | -1): void {
    this.count += by
    for (const { name } of names) {
      const count = (this.held.get(name) ?? 0) + by
      if (count > 0) this.held.set(name, count)
      else this.held.delete(name)
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
    const chosen = this.waiting.find(({ name }) => name !== this.last) ?? first
    this.waiting.splice(this.waiting.indexOf(chosen), 1)
    this.busy = true
    this.last = chosen.name
    chosen.start()
  }
}

const left = (): InstarError => new InstarError('aborted', 'The client closed the connection.')
