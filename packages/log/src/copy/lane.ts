/** Records one at a time from pages, the next page being fetched while one is used. */
import type { Topic } from '@instar/events/flow'
import type { EventLog, LogRecord, Offsets } from '../port.ts'

export type CopyRange = { from?: Offsets; to: Offsets }

export class Lane {
  readonly #pages: AsyncIterator<LogRecord[]>
  #coming: Promise<IteratorResult<LogRecord[], unknown>> | undefined
  #page: readonly LogRecord[] = []
  #at = 0

  constructor(log: EventLog, topic: Topic, partition: number, range: CopyRange) {
    this.#pages = log.read(topic, { ...range, partition })[Symbol.asyncIterator]()
  }

  /** Undefined where `fill` has to be called, and at the end. */
  get head(): LogRecord | undefined {
    return this.#page[this.#at]
  }

  step(): void {
    this.#at++
  }

  /** False at the end. */
  async fill(): Promise<boolean> {
    while (this.#at >= this.#page.length) {
      const { done, value } = await (this.#coming ?? this.#pages.next())
      if (done) return false
      this.#page = value
      this.#at = 0
      this.#coming = this.#pages.next()
      this.#coming.catch(() => undefined)
    }
    return true
  }

  async close(): Promise<void> {
    await this.#pages.return?.()
  }
}

/** Pages of at most so much, unless a single record is more. */
const PAGE_BYTES = 8 << 20
const PAGE_RECORDS = 8192

/**
 * A topic whole: the records of a partition in their order, partitions side by side by time, so that a log with
 * another number of partitions has its records in order of time as far as the source has them so. Holds two
 * pages of each partition.
 */
export async function* inTimeOrder(log: EventLog, topic: Topic, range: CopyRange): AsyncGenerator<LogRecord[]> {
  const all = Array.from({ length: log.partitions(topic) }, (_, partition) => new Lane(log, topic, partition, range))
  try {
    const filled = await Promise.all(all.map((lane) => lane.fill()))
    let lanes = all.filter((_, i) => filled[i])
    let page: LogRecord[] = []
    let bytes = 0
    while (lanes.length > 0) {
      let first = lanes[0]!
      for (const lane of lanes) if (lane.head!.timestamp < first.head!.timestamp) first = lane
      const record = first.head!
      page.push(record)
      bytes += record.payload.length
      first.step()
      if (!first.head && !(await first.fill())) lanes = lanes.filter((lane) => lane !== first)
      if (bytes < PAGE_BYTES && page.length < PAGE_RECORDS) continue
      yield page
      page = []
      bytes = 0
    }
    if (page.length > 0) yield page
  } finally {
    await Promise.allSettled(all.map((lane) => lane.close()))
  }
}
