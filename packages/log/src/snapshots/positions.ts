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

/** With the snapshot that is being written. `left`: topics that the state folds no more. `countOf`: partitions of a topic. */
export const writePositions = (
  file: FoldFile,
  positions: Positions,
  left: readonly Topic[],
  countOf: (topic: Topic) => number,
): void => {
  const reached = Array.from(positions, ([topic, partitions]) => [topic, [...partitions]] as const)
  file.setMeta('reached', JSON.stringify([...reached, ...left.map((topic) => [topic, null])]))
  // For builds of 2026-11-29, where a deploy is taken back.
  if (left.length > 0) file.setMeta('left', JSON.stringify(left))
  file.setMeta('partitions', countsText(positions.keys(), countOf))
}
