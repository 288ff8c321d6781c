/** Pages of an archive and of the log that goes on behind it, as one sequence. */
import type { Topic } from '@instar/events/flow'
import type { EventLog, LogRecord } from '../port.ts'
import type { CutPart } from './cut-part.ts'

/** `read`: of the log with its archive. */
export type ArchivedPorts = { log: EventLog; part: CutPart; read: EventLog['read'] }

type Pages = AsyncIterable<LogRecord[]>

/**
 * What a reader gets of the log's pages. `late`: partitions that begin with their first record of at least `time` (ms since 1970), all
 * of which is left out until then. `limit`: of each partition the offset at which it ends.
 */
export const held = async function* (
  pages: Pages,
  { late, time, limit }: { late: Set<number>; time: number; limit: Readonly<Record<number, number>> },
): AsyncGenerator<LogRecord[]> {
  for await (const page of pages) {
    const records = page.filter(({ partition, offset, timestamp }) => {
      if (timestamp >= time) late.delete(partition)
      return !late.has(partition) && offset < limit[partition]!
    })
    if (records.length > 0) yield records
  }
}

export const oneAfterTheOther = async function* (first: Pages, second: Pages): AsyncGenerator<LogRecord[]> {
  yield* first
  yield* second
}

/** Merges two sequences, each in order of offsets, of one topic. */
export const inOffsetOrder = async function* (first: Pages, second: Pages): AsyncGenerator<LogRecord[]> {
  const others = second[Symbol.asyncIterator]()
  let page: LogRecord[] = []
  let at = 0
  /** False: there is no other record any more. */
  const fill = async (): Promise<boolean> => {
    while (at >= page.length) {
      const { done, value } = await others.next()
      if (done) return false
      page = value
      at = 0
    }
    return true
  }
  try {
    let more = await fill()
    for await (const records of first) {
      const merged: LogRecord[] = []
      for (const record of records) {
        while (more && page[at]!.offset < record.offset) {
          merged.push(page[at]!)
          at += 1
          more = at < page.length || (await fill())
        }
        merged.push(record)
      }
      yield merged
    }
    while (more) {
      yield page.slice(at)
      at = page.length
      more = await fill()
    }
  } finally {
    await others.return?.()
  }
}

/** What was cut of a topic, from these offsets on; the log goes on at `until`. */
export const pagesBelow = async (
  { log, part, read }: ArchivedPorts,
  topic: Topic,
  offsets: readonly number[],
): Promise<{ topic: Topic; pages: AsyncIterator<LogRecord[]>; until: number[] }> => {
  const starts = part.starts(topic)
  const ends = await endsOf(log, topic)
  // Of a topic that is one sequence up to the last record that stayed, so that they are delivered in its order.
  const last = Math.max(0, ...Object.values(starts)) + 1
  const until = ends.map((end, partition) =>
    Math.max(offsets[partition]!, log.sequential ? Math.min(end, last) : (starts[partition] ?? 0)),
  )
  const pages = read(topic, { from: { [topic]: { ...offsets } }, to: { [topic]: { ...until } } })
  return { topic, pages: pages[Symbol.asyncIterator](), until }
}

/** By partition. */
export const endsOf = async (log: EventLog, topic: Topic): Promise<number[]> => {
  const ends = (await log.ends([topic]))[topic] ?? {}
  return Array.from({ length: log.partitions(topic) }, (_, partition) => ends[partition] ?? 0)
}
