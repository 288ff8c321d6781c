/**
 * Makes records durable: `write` resolves when the log has a turn on disk, or on the brokers. Retries for a limited
 * time while the log is full or unavailable. `write` of generate/candidate.ts calls it before an answer's last piece.
 */
import { encodeRecord, InstarError, type TurnsEvent } from '@instar/events'
import { blobChunks, versionsOn, type EventLog } from '@instar/log'
import { setTimeout as delay } from 'node:timers/promises'

const FIRST_WAIT_MS = 25
const LONGEST_WAIT_MS = 500
/** How long requests are refused after a failed append. */
const REFUSED_MS = 1000
/** Time between two looks whether a log that was unavailable can be written again. */
const PROBE_MS = 1000

export class Capture {
  private readonly log: EventLog
  private readonly now: () => number
  private readonly patienceMs: number
  private readonly maxHeld: number
  private running = 0
  private failures = 0
  private refused: { until: number; error: InstarError } | null = null
  /** The error of the last append that found the log unavailable; null once one, or a probe, succeeded. */
  private unwritable: InstarError | null = null
  private probing: NodeJS.Timeout | null = null
  private stopped = false
  private readonly onBroken: (error: InstarError) => void
  private readonly onAborted: () => void

  /** `onAborted`: called once an interrupted turn is durable. */
  constructor(
    ports: { log: EventLog; now: () => number; onBroken: (error: InstarError) => void; onAborted?: () => void },
    { patienceMs, maxHeld }: { patienceMs: number; maxHeld: number },
  ) {
    this.log = ports.log
    this.now = ports.now
    this.onBroken = ports.onBroken
    this.onAborted = ports.onAborted ?? (() => undefined)
    this.patienceMs = patienceMs
    this.maxHeld = maxHeld
  }

  /** Records that are being appended, and how many awaited appends have failed. */
  queue(): { pending: number; failed: number } {
    return { pending: this.running, failed: this.failures }
  }

  /** The error of the last failed append while it is recent. A broken log stays refused. */
  refusal(): InstarError | null {
    if (!this.refused) return null
    const { until, error } = this.refused
    const left = until - this.now()
    // More than REFUSED_MS: the clock was set back.
    return left > 0 && (left <= REFUSED_MS || until === Infinity) ? error : null
  }

  /**
   * Why the log takes no records: it refused one just now, or was unavailable and no append and no probe has succeeded since.
   * A gateway that is not ready gets no requests, so it probes.
   */
  outage(): InstarError | null {
    return this.refusal() ?? this.unwritable
  }

  stop(): void {
    this.stopped = true
    if (this.probing) clearTimeout(this.probing)
  }

  /** Throws if the log refuses records or too many answers wait for it. */
  admit(): void {
    const refusal = this.refusal()
    if (refusal) throw refusal
    if (this.running >= this.maxHeld)
      throw new InstarError('log_full', `${this.running} answers wait for the log.`, { waiting: this.running })
  }

  /**
   * Resolves when the records, all of one session, are durable. Rejects with `log_full` or `log_unavailable` when the
   * retry time is over, with `log_broken` at once.
   */
  async write(...events: TurnsEvent[]): Promise<void> {
    const records = events.map((event) => encodeRecord(event, versionsOn(this.log)))
    await this.appendWithRetries(
      () => this.log.append(records),
      events.some(({ type }) => type !== 'TurnSampled'),
    )
    if (events.some(({ type }) => type === 'TurnAborted')) this.onAborted()
  }

  /** Rejects as `write` does. */
  async blob({ bytes, sha256 }: { bytes: Uint8Array; sha256: string }, at: number): Promise<void> {
    for (const chunk of blobChunks(bytes, sha256, at, versionsOn(this.log)))
      await this.appendWithRetries(() => this.log.append([chunk]))
  }

  /** Until an append or a probe succeeds. */
  private watch(error: InstarError): void {
    this.unwritable = error
    if (this.probing || this.stopped) return
    this.probing = setTimeout(() => {
      void this.probe().finally(() => {
        this.probing = null
        if (this.unwritable) this.watch(this.unwritable)
      })
    }, PROBE_MS)
    this.probing.unref()
  }

  private async probe(): Promise<void> {
    if (!this.unwritable) return
    try {
      // Of a log on brokers: they answer, and partitions have leaders.
      await (this.log.probe ? this.log.probe() : this.log.ends(['turns']))
      this.unwritable = null
    } catch (error) {
      if (error instanceof InstarError) this.unwritable = error
    }
  }

  /** `awaited`: a failure is reported to a client. */
  private async appendWithRetries(append: () => Promise<unknown>, awaited = true): Promise<void> {
    let until = this.now() + this.patienceMs
    this.running += 1
    try {
      for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
        try {
          await append()
          // The records are durable.
          this.refused = null
          this.unwritable = null
          return
        } catch (error) {
          if (error instanceof InstarError && error.code === 'log_broken') {
            this.refused = { until: Infinity, error }
            this.onBroken(error)
          }
          if (!(error instanceof InstarError) || !error.retryable) throw error
          until = Math.min(until, this.now() + this.patienceMs)
          if (this.now() + wait > until) {
            this.refused = { until: this.now() + REFUSED_MS, error }
            if (error.code === 'log_unavailable') this.watch(error)
            throw error
          }
          await delay(wait)
        }
      }
    } catch (error) {
      if (awaited) this.failures += 1
      throw error
    } finally {
      this.running -= 1
    }
  }
}
