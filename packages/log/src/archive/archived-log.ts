/**
 * A log of which the records that were cut are read from an archive, so that every reader works as if nothing had been cut. What
 * the log holds is read from the log alone: a reader that begins there needs no archive.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { inOrder } from '../copy/partition-reader.ts'
import { cutsOn, isCutAway } from '../cuts.ts'
import { logWith } from '../log-with.ts'
import { partitionOf } from '../partition.ts'
import type { EventLog, LogRecord, ReadOptions } from '../port.ts'
import { PAGE_RECORDS } from '../reading.ts'
import { held, inOffsetOrder, oneAfterTheOther } from './archived-pages.ts'
import { subscribeWithArchive } from './archived-subscription.ts'
import { CutPart, type ArchiveSource } from './cut-part.ts'

/**
 * Closing it closes the source. `starts` gives 0. Reads and subscriptions from below what the log holds throw, beside errors of the
 * log, `archive_differs` if the archive is not that of the log, `archive_damaged` and `archive_unavailable`.
 */
export const withArchive = <L extends EventLog>(log: L, source: ArchiveSource): L => {
  const part = new CutPart(log, source)
  const read = (topic: Topic, options: ReadOptions = {}): AsyncIterable<LogRecord[]> =>
    readWithArchive(log, part, topic, options)
  return logWith(log, {
    read,
    subscribe: (options) => subscribeWithArchive({ log, part, read }, options),
    async at(position) {
      const { topic, partition, offset } = position
      try {
        if (offset >= (part.starts(topic)[partition] ?? 0)) return await log.at(position)
      } catch (error) {
        if (!isCutAway(error)) throw error
        await part.refresh()
      }
      return (await part.archive(topic, [partition])).at(position)
    },
    async starts(topics) {
      return Object.fromEntries(
        topics.map((topic) => [topic, Object.fromEntries(partitionsOf(log, topic).map((partition) => [partition, 0]))]),
      )
    },
    archiveUse: () => part.use(),
    async close() {
      await log.close()
      await part.close()
    },
  })
}

const partitionsOf = (log: EventLog, topic: Topic): number[] =>
  Array.from({ length: log.partitions(topic) }, (_, partition) => partition)

/** As `EventLog.read`. A cut during the reading ends it with the error of the log. */
const readWithArchive = (
  log: EventLog,
  part: CutPart,
  topic: Topic,
  options: ReadOptions,
): AsyncIterable<LogRecord[]> => {
  // At the call, since it fixes the end.
  const live = thrownWhenRead(() => log.read(topic, options))
  return (async function* () {
    let begun = false
    try {
      for await (const page of live) {
        begun = true
        yield page
      }
      return
    } catch (error) {
      if (begun || !isCutAway(error)) throw error
    }
    await part.refresh()
    yield* fromBoth(log, part, topic, options)
  })()
}

/** A cut that is met at the call is thrown when the first page is asked for. */
const thrownWhenRead = (read: () => AsyncIterable<LogRecord[]>): AsyncIterable<LogRecord[]> => {
  try {
    return read()
  } catch (error) {
    if (!isCutAway(error)) throw error
    return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error as Error) }) }
  }
}

const fromBoth = async function* (
  log: EventLog,
  part: CutPart,
  topic: Topic,
  options: ReadOptions,
): AsyncGenerator<LogRecord[]> {
  const { key, from = {}, to = {}, maxBatch = PAGE_RECORDS } = options
  const partition = key === undefined ? options.partition : partitionOf(key, log.partitions(topic))
  const all = partitionsOf(log, topic)
  const wanted = partition === undefined ? all : [partition]
  const archive = await part.archive(topic, wanted)
  const starts = part.starts(topic)
  const ends = (await log.ends([topic]))[topic] ?? {}
  const first: Record<number, number> = {}
  const limit: Record<number, number> = {}
  /** Of these partitions no record of the time was cut: they begin with the first one on the log. */
  const late = new Set<number>()
  for (const one of all) {
    const start = starts[one] ?? 0
    /** The first record of that time, of those that were cut. */
    const since = async (time: number): Promise<number | undefined> =>
      wanted.includes(one) ? archive.firstSince(topic, one, time, start) : undefined
    const begin = 'time' in from ? await since(from.time) : (from[topic]?.[one] ?? 0)
    if (begin === undefined) late.add(one)
    first[one] = begin ?? start
    limit[one] = ('time' in to ? await since(to.time) : to[topic]?.[one]) ?? ends[one] ?? 0
  }
  const cut = {
    from: { [topic]: first },
    to: { [topic]: mapped(all, (one) => Math.min(limit[one]!, starts[one] ?? 0)) },
  }
  const archived =
    partition === undefined
      ? inOrder(archive, topic, cut, { sequential: true })
      : archive.read(topic, { ...cut, partition, ...(key === undefined ? {} : { key }) })
  const live = held(
    log.read(topic, {
      ...options,
      from: { [topic]: mapped(all, (one) => Math.max(first[one]!, starts[one] ?? 0)) },
      to: 'time' in to ? to : { [topic]: limit },
    }),
    { late, time: 'time' in from ? from.time : 0, limit },
  )
  const pages =
    partition === undefined && log.sequential ? inOffsetOrder(archived, live) : oneAfterTheOther(archived, live)
  for await (const page of pages) for (let at = 0; at < page.length; at += maxBatch) yield page.slice(at, at + maxBatch)
}

const mapped = (partitions: readonly number[], of: (partition: number) => number): Record<number, number> =>
  Object.fromEntries(partitions.map((partition) => [partition, of(partition)]))

/**
 * A log without an archive: the error of a read from below what the log holds names the archive that has it. `onRefused` is called
 * with the first.
 */
export const namingArchive = <L extends EventLog>(
  log: L,
  onRefused: (error: InstarError) => void = () => undefined,
): L => {
  let refused = 0
  const named = async (error: unknown): Promise<unknown> => {
    if (!isCutAway(error)) return error
    refused += 1
    const named = await withAddress(error as InstarError)
    if (refused === 1) onRefused(named)
    return named
  }
  const withAddress = async (error: InstarError): Promise<InstarError> => {
    const { message, details } = error
    const cuts = await cutsOn(log).catch(() => [])
    const { archive } = cuts.at(-1)?.event ?? { archive: null }
    return archive === null ? error : new InstarError('log_cut', `${message}: ${archive}`, { ...details, archive })
  }
  const orNamed = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw await named(error)
    }
  }
  return logWith(log, {
    read(topic, options) {
      const pages = thrownWhenRead(() => log.read(topic, options))
      return (async function* () {
        try {
          yield* pages
        } catch (error) {
          throw await named(error)
        }
      })()
    },
    subscribe: (options) => orNamed(log.subscribe(options)),
    at: (position) => orNamed(log.at(position)),
    archiveUse: () => ({ read: 0, failed: 0, keptBytes: 0, refused }),
  })
}
