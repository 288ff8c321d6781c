/**
 * Commits how far a service has read the log, for other processes: the dashboard, `instar top`, and tools for consumer
 * groups. Nothing is read from there: a service goes on from its snapshot.
 */
import type { Topic } from '@instar/events'
import type { EventLog, Offsets, Position } from '@instar/log'

/** Time between two commits, in milliseconds. */
export const REPORT_MS = 5_000

type Reported = {
  group: string
  /** Null while the service does not read. */
  read: () => Offsets | null
  /**
   * Topics that the service reads no more: their ends are committed, so that an old commit is not taken for a lag. Default: none.
   */
  left?: () => readonly Topic[]
  /** Several processes of a service read everything; each commits what is assigned to it of this topic. */
  shared: Topic
  assigned: (partition: number) => boolean
}

/** Partitions of `shared` of which this process is the owner, and all of the other topics for the owner of partition 0. */
export const positionsToReport = (read: Offsets, shared: Topic, assigned: (partition: number) => boolean): Position[] =>
  (Object.entries(read) as [Topic, Record<number, number>][]).flatMap(([topic, partitions]) =>
    Object.entries(partitions).flatMap(([text, offset]) =>
      assigned(topic === shared ? Number(text) : 0) ? [{ topic, partition: Number(text), offset }] : [],
    ),
  )

/**
 * Commits now and then, one commit at a time, until `stop`. One that fails is not repeated: the next one says more. Nothing
 * is done on a log without `commit`.
 */
export const reportPositions = (
  log: Pick<EventLog, 'commit' | 'ends'>,
  { group, read, left = () => [], shared, assigned }: Reported,
): { stop(): void } => {
  if (!log.commit) return { stop: () => undefined }
  let running = false
  const report = async (): Promise<void> => {
    const offsets = read()
    if (running || offsets === null) return
    running = true
    try {
      const ends = left().length > 0 ? await log.ends(left()) : {}
      const positions = positionsToReport({ ...offsets, ...ends }, shared, assigned)
      if (positions.length > 0) await log.commit!(group, positions)
    } catch {
      // The next report says it.
    } finally {
      running = false
    }
  }
  const timer = setInterval(() => void report(), REPORT_MS)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
