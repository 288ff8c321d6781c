/**
 * Compares an archive with the log that it is of: every record, at its position. `Archive.check` says that the objects are what
 * the manifest names; this, that they are what the log has.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { checkpointsOn } from '../checkpoints/on-log.ts'
import { countBetween } from '../copy/behind.ts'
import { difference, differenceAt, type Difference } from '../copy/compare.ts'
import { Meter, type CopyObserver } from '../copy/meter.ts'
import { PartitionReader } from '../copy/partition-reader.ts'
import type { EventLog, LogRecord, Offsets } from '../port.ts'
import type { Archive } from './read.ts'

/** The newest checkpoint of a state. `archived`: every record before it, of the topics that it folds, is in the archive. */
export type ArchivedCheckpoint = { name: string; record: string; at: number; archived: boolean }

/**
 * `records`: that both have, alike. `damaged`: rows of the log that do not match their checksum, and on Kafka records that no build
 * can decode, whether or not the archive has them from before. `behind`: records that the log has after the archive's end. `first`: the first difference.
 */
export type LogComparison = {
  records: number
  damaged: number
  behind: number
  checkpoints: ArchivedCheckpoint[]
  first: Difference | null
}

type Seen = (record: LogRecord, archived: LogRecord | undefined) => void

const NOT_ARCHIVED = 'the archive does not have this record'
const NOT_ON_LOG = 'the log does not have this record'

/**
 * From the log's start up to the archive's end, and of each topic up to the first difference. `seen`: called with each record of the
 * log that is compared, or damaged, and the archive's of its offset, if there is one. Of a log that was cut, what is before its start is in the archive alone. Throws `archive_differs` for a log of other partitions,
 * `archive_damaged`, `archive_unavailable`, `aborted`, and errors of the log.
 */
export const compareWithLog = async (
  archive: Archive,
  log: EventLog,
  observer: CopyObserver,
  seen: Seen = () => undefined,
): Promise<LogComparison> => {
  for (const topic of TOPICS)
    if (archive.partitions(topic) !== log.partitions(topic))
      throw new InstarError(
        'archive_differs',
        `the archive has ${archive.partitions(topic)} partitions of ${topic}, the log ${log.partitions(topic)}`,
        { topic },
      )
  const to = await archive.ends(TOPICS)
  const from = (await log.starts?.(TOPICS)) ?? {}
  requireReaching(to, from)
  const behind = countBetween(log, to, await log.ends(TOPICS))
  const found: LogComparison = { records: 0, damaged: 0, behind, checkpoints: [], first: null }
  for (const topic of TOPICS) {
    const meter = new Meter({ phase: 'compare', topic }, { from, to }, observer)
    for (let partition = 0; partition < log.partitions(topic); partition += 1) {
      found.first = await comparePartition({ archive, log, from, to, found, read: meter.read, seen }, topic, partition)
      if (found.first) return found
    }
    meter.end()
  }
  const newest = new Map((await checkpointsOn(log)).map(({ id, event }) => [event.name, { id, event }]))
  found.checkpoints = [...newest.values()].map(({ id, event: { name, at, positions } }) => ({
    name,
    record: id,
    at,
    archived: positions.every(({ topic, partition, next }) => next <= (to[topic as Topic]?.[partition] ?? 0)),
  }))
  return found
}

/** Throws `archive_differs` for a log that was cut of records that the archive does not have. */
const requireReaching = (ends: Offsets, starts: Offsets): void => {
  for (const [topic, of] of Object.entries(starts) as [Topic, Readonly<Record<number, number>>][])
    for (const [partition, start] of Object.entries(of)) {
      const end = ends[topic]?.[Number(partition)] ?? 0
      if (start > end)
        throw new InstarError(
          'archive_differs',
          `the archive has ${topic} ${partition} up to ${end}, and the log was cut up to ${start}`,
          { topic, partition: Number(partition), end, start },
        )
    }
}

type Sides = {
  archive: Archive
  log: EventLog
  from: Offsets
  to: Offsets
  found: LogComparison
  read(record: LogRecord): void
  seen: Seen
}

const comparePartition = async (
  { archive, log, from, to, found, read, seen }: Sides,
  topic: Topic,
  partition: number,
): Promise<Difference | null> => {
  if ((to[topic]?.[partition] ?? 0) === 0) return null
  const archived = new PartitionReader(archive, topic, partition, { from, to })
  const stored = new PartitionReader(log, topic, partition, { from, to, unreadable: true })
  try {
    for (;;) {
      await Promise.all([archived.fill(), stored.fill()])
      const [ours, theirs] = [archived.head, stored.head]
      if (!ours && !theirs) return null
      if (theirs?.damaged && (!ours || theirs.offset <= ours.offset)) {
        found.damaged += 1
        const same = ours?.offset === theirs.offset ? ours : undefined
        seen(theirs, same)
        if (same) archived.step()
        stored.step()
        continue
      }
      if (theirs && (!ours || theirs.offset < ours.offset)) return differenceAt(theirs, NOT_ARCHIVED)
      if (!theirs || ours!.offset < theirs.offset) return differenceAt(ours!, NOT_ON_LOG)
      const what = difference(theirs, ours!)
      if (what !== undefined) return differenceAt(theirs, what.replaceAll('the destination', 'the archive'))
      read(theirs)
      seen(theirs, ours)
      found.records += 1
      archived.step()
      stored.step()
    }
  } finally {
    await Promise.allSettled([archived.close(), stored.close()])
  }
}
