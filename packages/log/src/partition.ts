/**
 * The partition of a key, by Kafka's default partitioner (murmur2). All adapters use it, so that the order of records
 * is the same on each and logs can be copied between them.
 */
import { FLOW, TOPICS, type Topic } from '@instar/events/flow'
import { InstarError } from '@instar/events/errors'

export type PartitionCounts = Readonly<Record<Topic, number>>

/**
 * 32-bit MurmurHash 2 as in org.apache.kafka.common.utils.Utils.murmur2, with its seed; signed. Hashes the bytes from
 * `from` (inclusive) to `to` (exclusive).
 */
export const murmur2 = (data: Uint8Array, from = 0, to = data.length): number => {
  const m = 0x5bd1e995
  const length = to - from
  const whole = from + (length & ~3)
  let h = 0x9747b28c ^ length
  for (let i = from; i < whole; i += 4) {
    let k = data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24)
    k = Math.imul(k, m)
    k ^= k >>> 24
    h = Math.imul(h, m) ^ Math.imul(k, m)
  }
  const rest = length & 3
  if (rest > 2) h ^= data[whole + 2]! << 16
  if (rest > 1) h ^= data[whole + 1]! << 8
  if (rest > 0) h = Math.imul(h ^ data[whole]!, m)
  h ^= h >>> 13
  h = Math.imul(h, m)
  return h ^ (h >>> 15)
}

/** The partition of a key, 0 ≤ partition < count, by the hash of its UTF-8 bytes. */
export const partitionOf = (key: string, count: number): number =>
  (murmur2(Buffer.from(key, 'utf8')) & 0x7fffffff) % count

/**
 * Partitions of `turns` on a new log with three or more replicas: its brokers flush nothing, so that more partitions cost
 * no appends, and a session's partition has one scorer (docs/decisions.md).
 */
export const REPLICATED_TURNS = 64

/** The numbers of partitions that `setup` gives a topic unless one is configured. */
export const defaultCounts = (topic: Topic): readonly number[] =>
  topic === 'turns' ? [FLOW.turns.partitions, REPLICATED_TURNS] : [FLOW[topic].partitions]

/** The partition counts of a new log with this number of replicas, overridden by `configured`. Throws `bad_request`. */
export const newLogCounts = (replication: number, configured: Partial<Record<Topic, number>> = {}): PartitionCounts =>
  partitionCounts(replication >= 3 ? { turns: REPLICATED_TURNS, ...configured } : configured)

/** The partition counts of the flow table, overridden by `configured`. Throws `bad_request` unless 1 to 65535. */
export const partitionCounts = (configured: Partial<Record<Topic, number>> = {}): PartitionCounts => {
  const counts = Object.fromEntries(
    TOPICS.map((topic) => [topic, configured[topic] ?? FLOW[topic].partitions]),
  ) as Record<Topic, number>
  for (const topic of TOPICS) {
    const count = counts[topic]
    if (!Number.isInteger(count) || count < 1 || count > 0xffff)
      throw new InstarError(
        'bad_request',
        `${topic} cannot have ${count} partitions: the number must be an integer from 1 to 65535`,
        { topic, count },
      )
  }
  return counts
}
