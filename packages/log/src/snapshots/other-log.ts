/** Whether the positions of a snapshot are those of a log. */
import { recordId } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import type { EventLog } from '../port.ts'

/** `id`: of the record before `next`. */
export type PartitionPosition = { next: number; id: string }

/** The partitions of each topic, as `otherLog` reads them. */
export const countsText = (topics: Iterable<Topic>, countOf: (topic: Topic) => number): string =>
  JSON.stringify(Object.fromEntries(Array.from(topics, (topic) => [topic, countOf(topic)])))

/**
 * Which of the partitions was cut up to where a state goes on in it, or beyond that; null: none. `nextOf`: the next offset to read, 0
 * of a partition of which nothing was read.
 */
export const cutBefore = async (
  log: EventLog,
  topics: Iterable<Topic>,
  nextOf: (topic: Topic, partition: number) => number,
): Promise<string | null> => {
  const starts = (await log.starts?.([...new Set(topics)])) ?? {}
  for (const [topic, of] of Object.entries(starts) as [Topic, Readonly<Record<number, number>>][])
    for (const [partition, start] of Object.entries(of))
      if (start > 0 && nextOf(topic, Number(partition)) <= start)
        return `${topic} ${partition} was cut up to ${start}, and it goes on before that`
  return null
}

/**
 * Why the log is not the one of the positions, or no longer has what is after them; null: it is. `topics`: that the state folds, also
 * those of which it has no position yet. `counts`: of `countsText`; absent in files of older builds. On a
 * copy with another number of partitions single positions may match by chance, with other records before them.
 */
export const otherLog = async (
  log: EventLog,
  positions: ReadonlyMap<Topic, ReadonlyMap<number, PartitionPosition>>,
  topics: readonly Topic[],
  counts = '{}',
): Promise<string | null> => {
  for (const [topic, count] of Object.entries(JSON.parse(counts) as Record<Topic, number>) as [Topic, number][])
    if (log.partitions(topic) !== count)
      return `it is of a log with ${count} partitions of ${topic}, and this one has ${log.partitions(topic)}`
  const nextOf = (topic: Topic, partition: number): number => positions.get(topic)?.get(partition)?.next ?? 0
  const cut = await cutBefore(log, [...positions.keys(), ...topics], nextOf)
  if (cut !== null) return cut
  for (const [topic, partitions] of positions)
    for (const [partition, { next, id }] of partitions) {
      const last = await log.at({ topic, partition, offset: next - 1 })
      if (!last || recordId(last) !== id) return `${topic} ${partition}@${next - 1} is a different record on this log`
    }
  return null
}
