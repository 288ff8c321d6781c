/**
 * Two trainers that both hold the line, as those do that cannot reach their group, would take it from each other without end:
 * each binding makes the other trainer bind again, and each pass is for nothing. One whose binding was replaced waits before it
 * binds again, twice as long each time, and as long as the other one records something.
 */
import type { UpdateLine } from '@instar/events'
import { Backoff } from '@instar/log'

/** The last one is longer than a pass of a large model. */
const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 600_000

export class Precedence {
  readonly #backoff = new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })
  /** The end of the chain when it last waited. */
  #waitedAt = ''

  /**
   * Waits where another trainer has replaced `mine`, the record id of this trainer's last binding. False: nothing was to be
   * waited for, or nothing was recorded since the last wait.
   */
  async yields({ binding, chain }: UpdateLine, mine: string | null, signal: AbortSignal): Promise<boolean> {
    if (mine === null || binding === null) return false
    if (binding.id === mine) {
      if (chain.tip !== mine) this.#backoff.reset()
      return false
    }
    if (chain.tip === this.#waitedAt) return false
    this.#waitedAt = chain.tip
    await this.#backoff.wait(signal)
    return true
  }
}
