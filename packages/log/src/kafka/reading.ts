/** Bounded reads of a topic, in pages. */
import type { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { partitionOf } from '../partition.ts'
import type { LogRecord, ReadOptions } from '../port.ts'
import { PAGE_RECORDS, startsOf } from '../reading.ts'
import { kafkaError, type Cluster, type KafkaRecord } from './client.ts'
import { requireLeaders, EARLIEST, fetchFrom, LATEST, offsetsAt, Progress, type TopicPartition } from './fetch.ts'
import { requireComplete } from './open-checks.ts'
import { timeOf } from './wire-format.ts'

type KafkaTopic = { topic: Topic; name: string; count: number }

/**
 * By partition: the first offset to read (inclusive) and the end (exclusive). `first`: the first offset that there is, 0 of
 * partitions that are not read.
 */
export type ReadBounds = { starts: number[]; ends: number[]; first: number[] }

const LIMITS = { maxBytes: 4 << 20, maxBytesPerPartition: 1 << 20, maxWaitTime: 100 }

/** The bounds of a read. Throws `position_unknown` for a position beyond the log. */
export const readBounds = async (
  cluster: Cluster,
  kafkaTopic: KafkaTopic,
  options: Pick<ReadOptions, 'from' | 'to' | 'key' | 'partition'>,
): Promise<ReadBounds> => {
  const { topic, name, count } = kafkaTopic
  const { from = {}, to } = options
  const all = Array.from({ length: count }, (_, partition) => partition)
  const partitions = partitionsOf(kafkaTopic, options)
  const at = async (time: number, missing = 0): Promise<number[]> => {
    const found = partitions.length > 0 ? await offsetsAt(cluster, partitions, time) : []
    return all.map(
      (partition) =>
        found.find((onlyPartition) => onlyPartition.topic === name && onlyPartition.partition === partition)?.offset ??
        missing,
    )
  }
  const [ends, first, since, until] = await Promise.all([
    at(LATEST, Infinity),
    at(EARLIEST),
    'time' in from ? at(from.time) : undefined,
    to && 'time' in to ? at(to.time) : undefined,
  ])
  const orEnd = (offsets: readonly number[]): number[] =>
    offsets.map((offset, partition) => (offset < 0 ? ends[partition]! : offset))
  const starts = since ? orEnd(since) : startsOf(topic, 'time' in from ? {} : (from[topic] ?? {}), ends)
  const limits = until
    ? orEnd(until)
    : ends.map((end, partition) => Math.min(end, to && !('time' in to) ? (to[topic]?.[partition] ?? end) : end))
  return { starts, ends: limits, first }
}

/** The partitions of a read. Only these must be reachable. */
export const partitionsOf = (
  { name, count }: KafkaTopic,
  { key, partition }: Pick<ReadOptions, 'key' | 'partition'>,
): TopicPartition[] => {
  const only = key === undefined ? partition : partitionOf(key, count)
  const all = Array.from({ length: count }, (_, i) => ({ topic: name, partition: i }))
  return only === undefined ? all : all.filter(({ partition: candidate }) => candidate === only)
}

type PageParts = {
  request<T>(work: (cluster: Cluster) => Promise<T>): Promise<T>
  decode(partition: number, record: KafkaRecord): Promise<LogRecord | undefined>
  /** The error for records below the first offset of a partition. */
  missing(partition: number, first: number): Promise<InstarError>
  /** See `Progress`. */
  stalledMs?: number
}

export async function* readPages(
  { topic, name, count }: KafkaTopic,
  { key, partition: requested, maxBatch = PAGE_RECORDS, maxBytes, unreadable }: ReadOptions,
  bounds: Promise<ReadBounds>,
  { request, decode, missing, stalledMs }: PageParts,
): AsyncGenerator<LogRecord[]> {
  const { starts, ends } = await bounds
  const only = key === undefined ? requested : partitionOf(key, count)
  const limits = maxBytes === undefined ? LIMITS : { ...LIMITS, maxBytes, maxBytesPerPartition: maxBytes }
  let left = starts
    .map((offset, partition) => ({ topic: name, partition, offset }))
    .filter(({ partition, offset }) => offset < ends[partition]! && (only === undefined || only === partition))
  const progress = new Progress(topic, stalledMs)
  while (left.length > 0) {
    const batches = await request(async (cluster) => {
      const [[nodeId, positions]] = requireLeaders(cluster, left) as unknown as [[string, typeof left]]
      try {
        return await fetchFrom(cluster, nodeId, positions, limits)
      } catch (cause) {
        if (kafkaError(cause) !== 'OFFSET_OUT_OF_RANGE') throw cause
        // Deleted since the bounds were read.
        for (const { partition, offset: first } of await offsetsAt(cluster, positions, EARLIEST))
          if (positions.some((at) => at.partition === partition && at.offset < first))
            throw await missing(partition, first)
        throw cause
      }
    })
    await progress.after(
      batches.some(({ partition, next }) => left.some((at) => at.partition === partition && next > at.offset)),
    )
    for (const batch of batches) {
      const { partition, records, next } = batch
      if (batch.missing && batch.missing.first < ends[partition]!) requireComplete(topic, batch)
      const position = left.find((candidate) => candidate.partition === partition)!
      position.offset = next
      let page: LogRecord[] = []
      for (const record of records) {
        if (Number(record.offset) >= ends[partition]!) break
        const logRecord = (await decode(partition, record)) ?? (unreadable && inPlaceOf(topic, partition, record))
        if (!logRecord || (key !== undefined && logRecord.key !== key)) continue
        page.push(logRecord)
        if (page.length < maxBatch) continue
        yield page
        page = []
      }
      if (page.length > 0) yield page
    }
    left = left.filter(({ partition, offset }) => offset < ends[partition]!)
    // Rotates, so that the next fetch goes to another leader.
    left.push(...left.splice(0, 1))
  }
}

const NO_BYTES = Buffer.alloc(0)

/** Without the bytes, which may be large. */
const inPlaceOf = (topic: Topic, partition: number, { offset, timestamp }: KafkaRecord): LogRecord => ({
  topic,
  key: '',
  schema: '',
  payload: NO_BYTES,
  timestamp: timeOf(timestamp),
  partition,
  offset: Number(offset),
  damaged: true,
  unreadable: true,
})
