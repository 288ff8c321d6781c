/**
 * Requests that wait for a judge. The newest turn goes first: learning wants what the serving version said, and where
 * a judge is slower than people it never comes to the oldest, which would be stale by then. Beyond `most` the oldest
 * is shed.
 */
import type { JudgeRequest } from './decide.ts'

type BacklogEntry = { at: number; request: JudgeRequest }

export class Backlog {
  /** A lower limit holds from the next request on. */
  most: number
  /** Oldest first. */
  readonly #entries: BacklogEntry[] = []

  constructor(most: number) {
    this.most = most
  }

  get size(): number {
    return this.#entries.length
  }

  /** `at`: when the turn was said. Returns the request that has no room, if any, which may be this one. */
  push(request: JudgeRequest, at: number): JudgeRequest | null {
    let [low, high] = [0, this.#entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#entries[middle]!.at <= at) low = middle + 1
      else high = middle
    }
    this.#entries.splice(low, 0, { at, request })
    return this.#entries.length > this.most ? this.#entries.shift()!.request : null
  }

  newest(): JudgeRequest | undefined {
    return this.#entries.pop()?.request
  }
}
