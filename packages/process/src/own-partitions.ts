/**
 * The partitions that a process folds because they are assigned to it. It works on one once it has folded what was on the log
 * when it received it, and what was on the other topics: before, it would repeat what another process has done.
 */
import type { Topic } from '@instar/events'
import type { Follower, Offsets, PartitionAssignment } from '@instar/log'

type OwnPartitionsOptions = {
  topic: Topic
  /** Partitions of the topic. */
  count: number
  follower: Pick<Follower, 'take' | 'release'>
  /** The next offset to read of each partition. */
  positions(): Offsets
  /** The partition is caught up. */
  onCaughtUp(partition: number): void
  /** The log cannot be followed. */
  onError(error: unknown): void
}

export type OwnPartitions = {
  /** Reads partitions before any is assigned. Resolves when they are caught up; `update` releases those that are not assigned. */
  prepare(partitions: readonly number[]): Promise<void>
  /** Call it after each change of the assignment. */
  update(assignment: PartitionAssignment | null): void
  /** Whether the partition is caught up and not released since. */
  has(partition: number): boolean
  /** Whether the partition is read. */
  reads(partition: number): boolean
  /** Partitions that are read and not caught up. */
  catchingUp(): number
  /** Resolves when those that are being caught up at the call are, or are released. */
  caughtUp(): Promise<void>
  /** From here on nothing is taken or reported. */
  stop(): void
}

export const ownPartitions = (options: OwnPartitionsOptions): OwnPartitions => {
  const { topic, count, follower, positions, onCaughtUp, onError } = options
  const held = new Map<number, { caughtUp: boolean }>()
  const taking = new Set<Promise<void>>()
  let stopped = false

  const take = async (partition: number): Promise<void> => {
    const taken = { caughtUp: false }
    held.set(partition, taken)
    await follower.take(partition, () => positions()[topic]?.[partition] ?? 0)
    // Meanwhile it may have been released, and taken again.
    if (stopped || held.get(partition) !== taken) return
    taken.caughtUp = true
    onCaughtUp(partition)
  }

  return {
    async prepare(partitions) {
      await Promise.all(partitions.map(take))
    },
    update(assignment) {
      if (stopped) return
      for (let partition = 0; partition < count; partition += 1) {
        const owned = assignment?.owns(partition) ?? false
        if (owned === held.has(partition)) continue
        if (owned) {
          const running = take(partition)
            .catch((error: unknown) => (stopped ? undefined : onError(error)))
            .finally(() => taking.delete(running))
          taking.add(running)
        } else {
          held.delete(partition)
          follower.release(partition)
        }
      }
    },
    has: (partition) => held.get(partition)?.caughtUp === true,
    reads: (partition) => held.has(partition),
    catchingUp: () => [...held.values()].filter(({ caughtUp }) => !caughtUp).length,
    async caughtUp() {
      await Promise.all(taking)
    },
    stop() {
      stopped = true
    },
  }
}
