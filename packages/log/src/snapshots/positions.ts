/** Where a stored state is on the log. */
import type { Topic } from '@instar/events/flow'
import type { Offsets } from '../port.ts'
import type { FoldFile } from './file.ts'
import { countsText, type PartitionPosition } from './other-log.ts'

export type Positions = Map<Topic, Map<number, PartitionPosition>>
/** `next`: the next offset; `record`: the id of the one before it. */
export type ReachedPosition = { topic: Topic; partition: number; next: number; record: string }

export const offsetsOf = (positions: Positions): Offsets =>
  Object.fromEntries(
    [...positions].map(([topic, partitions]) => [
      topic,
      Object.fromEntries([...partitions].map(([partition, { next }]) => [partition, next])),
    ]),
  )

export const reachedOf = (positions: Positions): ReachedPosition[] =>
  [...positions].flatMap(([topic, partitions]) =>
    [...partitions].map(([partition, { next, id }]) => ({ topic, partition, next, record: id })),
  )

/** With the snapshot that is being written. `countOf`: partitions of a topic. */
export const writePositions = (file: FoldFile, positions: Positions, countOf: (topic: Topic) => number): void => {
  file.setMeta('reached', JSON.stringify(Array.from(positions, ([topic, partitions]) => [topic, [...partitions]])))
  file.setMeta('partitions', countsText(positions.keys(), countOf))
}
