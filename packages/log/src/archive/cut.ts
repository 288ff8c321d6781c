/**
 * Cuts a log whose records are archived: what is older than a time, that checkpoints have folded and nobody needs. First every record
 * is compared with the archive's, then the record that allows the cut is durable, then records are deleted; a run that ends
 * between any two of these loses nothing, and the next one goes on.
 */
import { encodeEvent, InstarError, isReadable, recordId, type LogCut } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import type { CopyObserver } from '../copy/meter.ts'
import { allowedStarts, CUT_TOPICS, cutsOn, type Cut } from '../cuts.ts'
import { persist } from '../persist.ts'
import type { EventLog, LogRecord, Offsets } from '../port.ts'
import { readUpgrades, versionsOn } from '../upgrades.ts'
import { compareWithLog, type LogComparison } from './against-log.ts'
import { foldedBy, limitsOf, type LimitOptions } from './cut-limits.ts'
import { CutTallies, CutTally } from './cut-tally.ts'
import { placesText, type DamagedReport } from './report.ts'

export type CutOptions = LimitOptions & {
  /** As the record has it: without credentials. */
  address: string
  /** Deletes also records that cannot be read and that the archive does not have. */
  deleteUnreadable: boolean
  /** Only says what would be cut. */
  dryRun: boolean
  now: () => number
  observer: CopyObserver
  signal: AbortSignal
}

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

/** `records`, `bytes` (payloads): that are deleted. `starts`: of the partitions after it. */
export type TopicCutReport = { records: number; bytes: number; starts: Record<number, number> }

/**
 * `unarchived`: those of the records to delete that the archive does not have: rows that do not match their checksum, and on Kafka
 * records that no build can decode.
 * `record`: id of the one that allows the cut; null: nothing new is cut. `completed`: an earlier cut was carried out to its end.
 * `comparison`: of the archive with the log before it.
 */
export type CutReport = {
  topics: Record<(typeof CUT_TOPICS)[number], TopicCutReport>
  unarchived: DamagedReport
  record: string | null
  completed: boolean
  comparison: LogComparison
}

/**
 * Of an earlier cut that was not carried out to its end, what the archive has is deleted, too: its record names the last one before
 * each start, by which it is known as one of this log. Throws `not_archived` if records that the archive does not have would be deleted
 * without `deleteUnreadable`; `archive_differs` if the log is not what the archive has, or the
 * checkpoints do not have what an earlier cut may delete; `not_announced`, `archive_damaged`,
 * `archive_unavailable`, `aborted`, and errors of the log.
 */
export const cutLog = async (options: CutOptions): Promise<CutReport> => {
  const { log, archive, dryRun, observer } = options
  const starts = await requireStarts(log)(CUT_TOPICS)
  const open = openIn(await cutsOn(log), starts)
  const limits = await limitsOf(options, starts)
  const tallies = new CutTallies()
  const count = (record: LogRecord, archived: LogRecord | undefined): void => {
    const { topic, partition, offset } = record
    for (const one of open)
      if (one.topic === topic && one.partition === partition && offset <= one.start) one.tally.add(record, archived)
    if (offset < (limits.delete[topic]?.[partition] ?? 0)) tallies.add(record, archived)
  }
  const comparison = await compareWithLog(archive, log, observer, count)
  if (comparison.first) {
    const { topic, partition, offset, what } = comparison.first
    throw new InstarError(
      'archive_differs',
      `nothing is cut: ${options.address} is not what the log has at ${topic} ${partition}@${offset}: ${what}`,
      { archive: options.address, topic, partition, offset },
    )
  }
  // What is needed since, or is to be kept longer, stays.
  const ours = open.filter((one) => isOurs(one) && one.start <= limits.keep[one.topic as Topic]![one.partition]!)
  requireFolded(options, ours)
  const allowed = allowedStarts([{ event: { starts: ours } }])
  const isOpen = ours.length > 0
  const cut = tallies.all().flatMap(({ last, before }): LogCut['starts'] => {
    if (!last) return []
    const { topic, partition, offset: start } = last
    const known = Math.max(starts[topic]?.[partition] ?? 0, allowed[topic]?.[partition] ?? 0)
    return start > known ? [{ topic, partition, start, record: before && recordId(before) }] : []
  })
  const isNew = cut.some(({ record }) => record !== null)
  const deleted = isNew || isOpen ? deletedOf(log, tallies, ours) : deletedOf(log, new CutTallies(), [])
  if (!dryRun) requireArchived(options, deleted.unarchived)
  let record: string | null = null
  if (!dryRun && isNew) record = await announce(options, cut)
  // Of these records alone: of another one, such as that of a log of which this is a copy, nothing was compared.
  if (!dryRun && (isNew || isOpen))
    await log.cut!(allowedStarts([{ event: { starts: ours } }, { event: { starts: isNew ? cut : [] } }]))
  const after = dryRun ? starts : await requireStarts(log)(CUT_TOPICS)
  const topics = Object.fromEntries(
    CUT_TOPICS.map((topic) => [topic, { ...deleted.topics[topic], starts: after[topic]! }]),
  ) as CutReport['topics']
  return { topics, unarchived: deleted.unarchived, record, completed: !dryRun && isOpen, comparison }
}

/** Whether the record that allows a cut is of this log: the records at its start and before that are those that it names. */
const isOurs = ({ start, record, tally: { last, before } }: OpenCut): boolean =>
  last ? last.offset === start && (before && recordId(before)) === record : record === null

type Deleted = { topics: Record<string, { records: number; bytes: number }>; unarchived: DamagedReport }

/** By what is cut now and by earlier cuts of the same partitions: the one of the two that reaches further. */
const deletedOf = (log: EventLog, tallies: CutTallies, ours: readonly OpenCut[]): Deleted => {
  const unarchived: DamagedReport = { records: 0, first: [] }
  const topics = Object.fromEntries(
    CUT_TOPICS.map((topic) => {
      const sum = { records: 0, bytes: 0 }
      for (const partition of range(log.partitions(topic))) {
        const earlier = ours.filter((one) => one.topic === topic && one.partition === partition)
        const all = [tallies.get(topic, partition), ...earlier.map(({ tally }) => tally)].filter(
          (one) => one !== undefined,
        )
        const [most] = all.map(({ deleted }) => deleted).toSorted((a, b) => b.records - a.records)
        if (!most) continue
        sum.records += most.records
        sum.bytes += most.bytes
        unarchived.records += most.unarchived.records
        unarchived.first.push(...most.unarchived.first)
      }
      return [topic, sum]
    }),
  )
  return { topics, unarchived }
}

/** Positions in a message. */
const NAMED = 10

const requireArchived = ({ address, deleteUnreadable }: CutOptions, unarchived: DamagedReport): void => {
  const { records, first } = unarchived
  if (records === 0 || deleteUnreadable) return
  throw new InstarError(
    'not_archived',
    `nothing is cut: of the records to delete ${records} cannot be read and ${records === 1 ? 'is' : 'are'} not in ${address}: ${placesText(unarchived, NAMED)}`,
    { archive: address, records, first: first.slice(0, NAMED) },
  )
}

/** Throws `not_available` for a log that cannot be cut. */
const requireStarts = (log: EventLog): ((topics: readonly Topic[]) => Promise<Offsets>) => {
  if (log.starts && log.cut) return (topics) => log.starts!(topics)
  throw new InstarError('not_available', 'records of this log cannot be deleted')
}

/** What a record allows and was not deleted. `tally`: of the records up to `start` that were compared. */
type OpenCut = LogCut['starts'][number] & { tally: CutTally }

const openIn = (cuts: readonly Cut[], starts: Offsets): OpenCut[] =>
  cuts.flatMap(({ event }) =>
    event.starts
      .filter(({ topic, partition, start }) => start > (starts[topic as Topic]?.[partition] ?? 0))
      .map((one) => ({ ...one, tally: new CutTally() })),
  )

/** Throws `archive_differs` where an earlier cut was allowed of what the checkpoints do not have. */
const requireFolded = ({ address, checkpoints }: CutOptions, open: readonly OpenCut[]): void => {
  const folded = foldedBy(checkpoints)
  for (const { topic, partition, start } of open) {
    const limit = folded(topic as Topic, partition)
    if (start <= limit) continue
    throw new InstarError(
      'archive_differs',
      `a record on the log allows that ${topic} ${partition} begins at ${start}, and the checkpoints have it up to ${limit}: nothing is cut`,
      { archive: address, topic, partition, start, limit },
    )
  }
}

/** The id of the record that allows the cut, once it is durable. Throws `not_announced`. */
const announce = async (
  { log, archive, address, checkpoints, now, signal }: CutOptions,
  starts: LogCut['starts'],
): Promise<string> => {
  await readUpgrades(log)
  const versions = versionsOn(log)
  if (!isReadable(versions, 'LogCut'))
    throw new InstarError(
      'not_announced',
      'the log cannot be cut: no record on it states that all readers support that. Once every process runs this build: `instar setup --upgraded`.',
      { type: 'LogCut' },
    )
  const ids = checkpoints.map(({ id }) => id)
  const event: LogCut = {
    type: 'LogCut',
    starts,
    archive: address,
    manifest: archive.digest,
    checkpoints: ids,
    who: 'archive',
    at: now(),
  }
  const record = encodeEvent(event, versions)
  await persist(log, [record], signal)
  return record.id
}
