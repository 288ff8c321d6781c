/** Bounded reads: where they begin and end, and the pages between. */
import type { Topic } from '@instar/events/flow'
import { partitionOf } from '../partition.ts'
import type { LogRecord, ReadOptions } from '../port.ts'
import { startsOf, PAGE_RECORDS } from '../reading.ts'
import type { Cluster, Fetchable } from './client.ts'
import { byLeader, EARLIEST, fetchFrom, LATEST, offsetsAt, type TopicPartition } from './fetch.ts'
import { truncated } from './opening.ts'

type KafkaTopic = { topic: Topic; name: string; count: number }

/** By partition: the first offset to read, and the first that is not read. */
type ReadBounds = { starts: number[]; ends: number[] }

const LIMITS = { maxBytes: 4 << 20, maxBytesPerPartition: 1 << 20, maxWaitTime: 100 }

/**
 * Throws `position_unknown` for what cannot be a position of this log, `log_truncated` for a topic whose first
 * records are gone.
 */
export const limitsOf = async (
  cluster: Cluster,
  place: KafkaTopic,
  options: Pick<ReadOptions, 'from' | 'to' | 'key' | 'partition'>,
): Promise<ReadBounds> => {
  const { topic, name, count } = place
  const { from = {}, to } = options
  const all = Array.from({ length: count }, (_, partition) => partition)
  const asked = placesOf(place, options)
  const at = async (time: number, unasked = 0): Promise<number[]> => {
    const found = asked.length > 0 ? await offsetsAt(cluster, asked, time) : []
    return all.map(
      (partition) => found.find((one) => one.topic === name && one.partition === partition)?.offset ?? unasked,
    )
  }
  const [ends, first, since, until] = await Promise.all([
    at(LATEST, Infinity),
    at(EARLIEST),
    'time' in from ? at(from.time) : undefined,
    to && 'time' in to ? at(to.time) : undefined,
  ])
  const cut = first.findIndex((offset) => offset > 0)
  if (cut >= 0) throw truncated(topic, cut, first[cut]!)
  const orEnd = (offsets: readonly number[]): number[] =>
    offsets.map((offset, partition) => (offset < 0 ? ends[partition]! : offset))
  const starts = since ? orEnd(since) : startsOf(topic, 'time' in from ? {} : (from[topic] ?? {}), ends)
  const limits = until
    ? orEnd(until)
    : ends.map((end, partition) => Math.min(end, to && !('time' in to) ? (to[topic]?.[partition] ?? end) : end))
  return { starts, ends: limits }
}

/** The partitions that a read asks, and nobody else's fault keeps it from. */
export const placesOf = (
  { name, count }: KafkaTopic,
  { key, partition }: Pick<ReadOptions, 'key' | 'partition'>,
): TopicPartition[] => {
  const only = key === undefined ? partition : partitionOf(key, count)
  const all = Array.from({ length: count }, (_, i) => ({ topic: name, partition: i }))
  return only === undefined ? all : all.filter((place) => place.partition === only)
}

type PageParts = {
  ask<T>(work: (cluster: Cluster) => Promise<T>): Promise<T>
  accept(partition: number, record: Fetchable): Promise<LogRecord | undefined>
}

export async function* readPages(
  { name, count }: KafkaTopic,
  { key, partition: one, maxBatch = PAGE_RECORDS, maxBytes }: ReadOptions,
  limits: Promise<ReadBounds>,
  { ask, accept }: PageParts,
): AsyncGenerator<LogRecord[]> {
  const { starts, ends } = await limits
  const only = key === undefined ? one : partitionOf(key, count)
  const fetched = maxBytes === undefined ? LIMITS : { ...LIMITS, maxBytes, maxBytesPerPartition: maxBytes }
  let left = starts
    .map((offset, partition) => ({ topic: name, partition, offset }))
    .filter(({ partition, offset }) => offset < ends[partition]! && (only === undefined || only === partition))
  while (left.length > 0) {
    const batches = await ask(async (cluster) => {
      const [[nodeId, wants]] = byLeader(cluster, left) as unknown as [[string, typeof left]]
      return fetchFrom(cluster, nodeId, wants, fetched)
    })
    for (const { partition, records, next } of batches) {
      const place = left.find((one) => one.partition === partition)!
      place.offset = next
      let page: LogRecord[] = []
      for (const record of records) {
        if (Number(record.offset) >= ends[partition]!) break
        const ours = await accept(partition, record)
        if (!ours || (key !== undefined && ours.key !== key)) continue
        page.push(ours)
        if (page.length < maxBatch) continue
        yield page
        page = []
      }
      if (page.length > 0) yield page
    }
    left = left.filter(({ partition, offset }) => offset < ends[partition]!)
    // Another leader's turn.
    left.push(...left.splice(0, 1))
  }
}
