/** Puts turns on the log and says when they are there. A log that is full or away is tried again for a while. */
import { encodeEvent, InstarError, type TurnsEvent } from '@instar/events'
import { putBlob, type EventLog } from '@instar/log'
import { setTimeout as delay } from 'node:timers/promises'

const FIRST_WAIT_MS = 25
const LONGEST_WAIT_MS = 500
/** After a failure, requests are refused at the door for so long. */
const REFUSED_MS = 1000

export class Capture {
  private readonly log: EventLog
  private readonly now: () => number
  private readonly patienceMs: number
  private running = 0
  private failures = 0
  private refused: { until: number; error: InstarError } | null = null

  constructor(ports: { log: EventLog; now: () => number }, patienceMs: number) {
    this.log = ports.log
    this.now = ports.now
    this.patienceMs = patienceMs
  }

  /** Records that are on their way, and how many never arrived. */
  queue(): { pending: number; failed: number } {
    return { pending: this.running, failed: this.failures }
  }

  /** Throws what the log said last, while that is fresh. */
  admit(): void {
    if (this.refused && this.now() < this.refused.until) throw this.refused.error
  }

  /** Resolves when the record is durable; rejects with `log_full` or `log_unavailable` when patience ends. */
  async write(event: TurnsEvent): Promise<void> {
    const { id: _, ...record } = encodeEvent(event)
    await this.tried(() => this.log.append([record]))
  }

  async blob(bytes: Uint8Array, at: number): Promise<void> {
    await this.tried(() => putBlob(this.log, bytes, at))
  }

  private async tried(append: () => Promise<unknown>): Promise<void> {
    const until = this.now() + this.patienceMs
    this.running += 1
    try {
      for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
        try {
          await append()
          this.refused = null
          return
        } catch (error) {
          if (!(error instanceof InstarError) || !error.retryable) throw error
          if (this.now() + wait > until) {
            this.refused = { until: this.now() + REFUSED_MS, error }
            throw error
          }
          await delay(wait)
        }
      }
    } catch (error) {
      this.failures += 1
      throw error
    } finally {
      this.running -= 1
    }
  }
}
