/**
 * Two trainers that both hold the line, as those do that cannot reach their group, would take it from each other without end:
 * each binding makes the other trainer bind again, and each pass is for nothing. One whose binding was replaced waits before it
 * binds again, as long as the other one records something.
 */
import type { UpdateLine } from '@instar/events'
import { Backoff, sleep } from '@instar/log'

/** The last one is longer than a pass of a large model. */
const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 600_000

export class Precedence {
  readonly #sleep: typeof sleep
  readonly #backoff = new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })
  #waitMs = this.#backoff.next()
  /** The end of the chain when it last waited, and whether it has taken the line after that. */
  #waitedAt = ''
  #hasTaken = false

  constructor(wait: typeof sleep = sleep) {
    this.#sleep = wait
  }

  /**
   * Waits where another trainer has replaced `mine`, the record id of this trainer's last binding. False: nothing was to be
   * waited for, or nothing was recorded since the last wait. Only after such a silence, which may be a pass of the other one
   * that took longer, is the next wait twice as long: it becomes at most twice the longest pass, and so does the time until
   * the line of a trainer that ended is taken.
   */
  async yields({ binding, chain }: UpdateLine, mine: string | null, signal: AbortSignal): Promise<boolean> {
    if (mine === null || binding === null) return false
    if (binding.id === mine) {
      if (chain.tip !== mine) {
        this.#backoff.reset()
        this.#waitMs = this.#backoff.next()
      }
      return false
    }
    if (chain.tip === this.#waitedAt) {
      if (!this.#hasTaken) this.#waitMs = this.#backoff.next()
      this.#hasTaken = true
      return false
    }
    this.#waitedAt = chain.tip
    this.#hasTaken = false
    await this.#sleep(this.#waitMs, signal)
    return true
  }
}
