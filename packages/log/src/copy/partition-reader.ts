/** Sequential readers of partitions that prefetch one page. */
import type { Topic } from '@instar/events/flow'
import type { CopySource, EventLog, LogRecord, Offsets, ReadOptions } from '../port.ts'

type CopyRange = { from?: Offsets; to: Offsets } & Pick<ReadOptions, 'unreadable'>

export class PartitionReader {
  readonly #pages: AsyncIterator<LogRecord[]>
  #nextPage: Promise<IteratorResult<LogRecord[], unknown>> | undefined
  #page: readonly LogRecord[] = []
  #at = 0

  constructor(log: CopySource, topic: Topic, partition: number, range: CopyRange) {
    this.#pages = log.read(topic, { ...range, partition })[Symbol.asyncIterator]()
  }

  /** The current record; undefined if `fill` must be called or at the end. */
  get head(): LogRecord | undefined {
    return this.#page[this.#at]
  }

  step(): void {
    this.#at++
  }

  /** Loads the next page if there is no current record. Returns false at the end. */
  async fill(): Promise<boolean> {
    while (this.#at >= this.#page.length) {
      const { done, value } = await (this.#nextPage ?? this.#pages.next())
      if (done) return false
      this.#page = value
      this.#at = 0
      this.#nextPage = this.#pages.next()
      this.#nextPage.catch(() => undefined)
    }
    return true
  }

  async close(): Promise<void> {
    await this.#pages.return?.()
  }
}

/** Maximum size of a page in payload bytes, unless it has a single record, and in records. */
type PageLimits = { bytes: number; records: number }
/** Large ones for Kafka, which flushes each partition's part. */
const PAGE: PageLimits = { bytes: 8 << 20, records: 8192 }
/**
 * For an embedded log: with its last record, and its keys, such a page fits the memory that the log's queue keeps. Memory for a
 * larger one is allocated for each, and freed late (`MAX_RETAINED_BYTES` of embedded/frame.ts).
 */
const PAGE_OF_EMBEDDED: PageLimits = { bytes: 2 << 20, records: 4096 }

/**
 * Reads a topic in pages, merging its partitions in the order of appends where offsets state it (`sequential`), else by
 * timestamp; the order within a partition stays. A destination with another partition count is then in order of time
 * wherever the source is. Keeps two pages of each partition in memory.
 */
export async function* inOrder(
  log: CopySource,
  topic: Topic,
  range: CopyRange,
  to: Pick<EventLog, 'sequential'>,
): AsyncGenerator<LogRecord[]> {
  const limits = to.sequential ? PAGE_OF_EMBEDDED : PAGE
  const all = Array.from(
    { length: log.partitions(topic) },
    (_, partition) => new PartitionReader(log, topic, partition, range),
  )
  const order = log.sequential ? 'offset' : 'timestamp'
  try {
    const hasRecords = await Promise.all(all.map((reader) => reader.fill()))
    let open = all.filter((_, i) => hasRecords[i])
    let page: LogRecord[] = []
    let bytes = 0
    while (open.length > 0) {
      let first = open[0]!
      for (const reader of open) if (reader.head![order] < first.head![order]) first = reader
      const record = first.head!
      page.push(record)
      bytes += record.payload.length
      first.step()
      if (!first.head && !(await first.fill())) open = open.filter((reader) => reader !== first)
      if (bytes < limits.bytes && page.length < limits.records) continue
      yield page
      page = []
      bytes = 0
    }
    if (page.length > 0) yield page
  } finally {
    await Promise.allSettled(all.map((reader) => reader.close()))
  }
}
