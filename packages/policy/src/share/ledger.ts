/**
 * Accounts of the time that serving owes to learning on the cores that both use. While learning has work, serving may
 * compute for at most 1 − share of the time: a step of d ms is followed by a pause of d · share / (1 − share), in which
 * the cores belong to learning alone. Serving is therefore slower by no more than 1 / (1 − share), and learning has its
 * share whatever the priorities of the threads are.
 */

/** Pauses below this are saved up, in ms: a timer is no finer. */
const PAUSE_MIN_MS = 4
/**
 * The longest pause; what remains is owed. A request that arrives in a pause waits at most so long for its first step.
 */
export const PAUSE_MAX_MS = 250
/** Idle time of serving that is credited at most. */
const CREDIT_MAX_MS = 250
/** Owed time at most: a request that arrives in a pause waits at most so long for its first step. */
const OWED_MAX_MS = 2000

export class ShareLedger {
  /** ms that serving owes; negative: learning was ahead of its share. */
  private owed = 0

  /**
   * Serving has computed for `ms` while learning had work. `share`: 0…1, below 1. Returns the pause that is due, in ms.
   */
  computed(ms: number, share: number): number {
    this.owed = Math.min(OWED_MAX_MS, this.owed + (ms * share) / (1 - share))
    return this.owed < PAUSE_MIN_MS ? 0 : this.owed
  }

  /** Serving has paused, or had nothing to do, for `ms` while learning had work. */
  idle(ms: number): void {
    this.owed = Math.max(-CREDIT_MAX_MS, this.owed - ms)
  }

  /** Learning has no work: nothing is owed. */
  reset(): void {
    this.owed = 0
  }
}
