/** Up to where a log may be cut: by what is archived, folded, old and needed. */
import type { Topic } from '@instar/events/flow'
import type { Checkpoint } from '../checkpoints/on-log.ts'
import { CUT_TOPICS, isCutAway } from '../cuts.ts'
import { BLOCK } from '../embedded/blocks.ts'
import type { EventLog, Offsets, Position, ReadOptions } from '../port.ts'
import type { Archive } from './read.ts'

export type FoldedCheckpoint = Checkpoint & { topics: readonly Topic[] }

export type LimitOptions = {
  log: EventLog
  archive: Archive
  /**
   * The newest of each state that starts from one, and the topics that it folds: one of which it has no position was not read. None
   * of their records but the last is needed any more.
   */
  checkpoints: readonly FoldedCheckpoint[]
  /** Records since then stay, milliseconds since 1970. */
  since: number
  /** Records that are still read: they, and all after them in their partitions, stay. */
  needed: readonly Position[]
}

/** By topic and partition, the offset up to which records may be deleted but for the last of them, and that before which none is kept. */
type Limits = Record<'delete' | 'keep', Partial<Record<Topic, readonly number[]>>>

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

/** The offset up to which all of the checkpoints whose states fold the topic have folded a partition. */
export const foldedBy =
  (checkpoints: readonly FoldedCheckpoint[]) =>
  (topic: Topic, partition: number): number =>
    checkpoints.reduce((limit, { topics, event: { positions } }) => {
      if (!topics.includes(topic)) return limit
      return Math.min(limit, positions.find((one) => one.topic === topic && one.partition === partition)?.next ?? 0)
    }, Infinity)

/** `starts`: of the log. Throws errors of the log. */
export const limitsOf = async (
  { log, archive, checkpoints, since, needed }: LimitOptions,
  starts: Offsets,
): Promise<Limits> => {
  const limits: Limits = { delete: {}, keep: {} }
  const archived = await archive.ends(CUT_TOPICS)
  const folded = foldedBy(checkpoints)
  for (const topic of CUT_TOPICS) {
    const [of, keep]: [number[], number[]] = [[], []]
    let until = Infinity
    for (const partition of range(log.partitions(topic))) {
      // One that a cut has deleted, such as a turn with feedback after months, holds up nothing.
      const start = starts[topic]?.[partition] ?? 0
      const kept = needed.reduce(
        (least, one) =>
          one.topic === topic && one.partition === partition && one.offset >= start
            ? Math.min(least, one.offset)
            : least,
        await firstOf(log, topic, partition, { time: since }),
      )
      keep.push(kept)
      const limit = Math.min(archived[topic]?.[partition] ?? 0, folded(topic, partition), kept)
      of.push(limit)
      if (log.sequential)
        until = Math.min(until, await firstOf(log, topic, partition, { [topic]: { [partition]: limit } }))
    }
    if (log.sequential) {
      const end = Math.max(0, ...Object.values((await log.ends([topic]))[topic]!))
      of.fill(Math.floor(Math.min(until, end) / BLOCK) * BLOCK)
    }
    limits.delete[topic] = of
    limits.keep[topic] = keep
  }
  return limits
}

/** The offset of the first record of a partition; `Infinity`: there is none. Where a cut has deleted records since, 0. */
const firstOf = async (log: EventLog, topic: Topic, partition: number, from: ReadOptions['from']): Promise<number> => {
  try {
    for await (const [first] of log.read(topic, { partition, from, maxBatch: 1, maxBytes: 1 << 16 }))
      return first!.offset
    return Infinity
  } catch (error) {
    if (isCutAway(error)) return 0
    throw error
  }
}
