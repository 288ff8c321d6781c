/**
 * Cuts a log whose records are archived: what is older than a time, that checkpoints have folded and nobody needs. First every record
 * is compared with the archive's, then the record that allows the cut is durable, then records are deleted; a run that ends
 * between any two of these loses nothing, and the next one goes on.
 */
import { encodeEvent, InstarError, isReadable, recordId, type LogCut } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import type { Checkpoint } from '../checkpoints/on-log.ts'
import type { CopyObserver } from '../copy/meter.ts'
import { allowedStarts, CUT_TOPICS, cutsOn, isCutAway, type Cut } from '../cuts.ts'
import { BLOCK } from '../embedded/blocks.ts'
import { persist } from '../persist.ts'
import type { EventLog, LogRecord, Offsets, Position, ReadOptions } from '../port.ts'
import { readUpgrades, versionsOn } from '../upgrades.ts'
import { compareWithLog, type LogComparison } from './against-log.ts'
import type { Archive } from './read.ts'

export type FoldedCheckpoint = Checkpoint & { topics: readonly Topic[] }

export type CutOptions = {
  log: EventLog
  archive: Archive
  /** As the record has it: without credentials. */
  address: string
  /**
   * The newest of each state that starts from one, and the topics that it folds: one of which it has no position was not read. None
   * of their records but the last is needed any more.
   */
  checkpoints: readonly FoldedCheckpoint[]
  /** Records since then stay, milliseconds since 1970. */
  since: number
  /** Records that are still read: they, and all after them in their partitions, stay. */
  needed: readonly Position[]
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
 * `record`: id of the one that allows the cut; null: nothing new is cut. `completed`: an earlier cut was carried out to its end.
 * `comparison`: of the archive with the log before it.
 */
export type CutReport = {
  topics: Record<(typeof CUT_TOPICS)[number], TopicCutReport>
  record: string | null
  completed: boolean
  comparison: LogComparison
}

/** By topic and partition, the offset up to which records may be deleted but for the last of them, and that before which none is kept. */
type Limits = Record<'delete' | 'keep', Partial<Record<Topic, readonly number[]>>>
/** Of the records of a partition below its limit: the last one stays. */
type Tally = { records: number; bytes: number; last: LogRecord; before: LogRecord | null }

/**
 * Of an earlier cut that was not carried out to its end, what the archive has is deleted, too: its record names the last one before
 * each start, by which it is known as one of this log. Throws `archive_differs` if the log is not what the archive has, or the
 * checkpoints do not have what an earlier cut may delete; `not_announced`, `archive_damaged`,
 * `archive_unavailable`, `aborted`, and errors of the log.
 */
export const cutLog = async (options: CutOptions): Promise<CutReport> => {
  const { log, archive, dryRun, observer } = options
  const starts = await requireStarts(log)(CUT_TOPICS)
  const open = openIn(await cutsOn(log), starts)
  const limits = await limitsOf(options, starts)
  const tallies = new Map<string, Tally>()
  const count = (record: LogRecord): void => {
    const { topic, partition, offset } = record
    for (const one of open)
      if (one.topic === topic && one.partition === partition && offset < one.start)
        one.tally = counted(one.tally, record)
    if (offset >= (limits.delete[topic]?.[partition] ?? 0)) return
    const place = `${topic} ${partition}`
    tallies.set(place, counted(tallies.get(place) ?? null, record))
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
  const ours = open.filter(
    ({ topic, partition, start, record, tally }) =>
      (tally && recordId(tally.last)) === record && start <= limits.keep[topic as Topic]![partition]!,
  )
  requireFolded(options, ours)
  const allowed = allowedStarts([{ event: { starts: ours } }])
  const isOpen = ours.length > 0
  const cut: LogCut['starts'] = [...tallies.values()]
    .filter(({ last: { topic, partition, offset } }) => offset > (starts[topic]?.[partition] ?? 0))
    .filter(({ last: { topic, partition, offset } }) => offset > (allowed[topic]?.[partition] ?? 0))
    .map(({ last: { topic, partition, offset: start }, before }) => ({
      topic,
      partition,
      start,
      record: before && recordId(before),
    }))
  const isNew = cut.some(({ record }) => record !== null)
  let record: string | null = null
  if (!dryRun && isNew) record = await announce(options, cut)
  // Of these records alone: of another one, such as that of a log of which this is a copy, nothing was compared.
  if (!dryRun && (isNew || isOpen))
    await log.cut!(allowedStarts([{ event: { starts: ours } }, { event: { starts: isNew ? cut : [] } }]))
  const after = dryRun ? starts : await requireStarts(log)(CUT_TOPICS)
  const topics = Object.fromEntries(
    CUT_TOPICS.map((topic): [string, TopicCutReport] => {
      const of = range(log.partitions(topic)).map((partition) => {
        const earlier = ours
          .filter((one) => one.topic === topic && one.partition === partition)
          .map(({ tally }) => tally)
        const deleted = [tallies.get(`${topic} ${partition}`) ?? null, ...earlier].filter((one) => one !== null)
        return deleted.reduce((most, one) => (one.records > most.records ? one : most), { records: 0, bytes: 0 })
      })
      const sum = (value: (one: (typeof of)[number]) => number): number =>
        of.reduce((total, one) => total + value(one), 0)
      return [
        topic,
        { records: sum(({ records }) => records), bytes: sum(({ bytes }) => bytes), starts: after[topic]! },
      ]
    }),
  ) as CutReport['topics']
  return { topics, record, completed: !dryRun && isOpen, comparison }
}

const counted = (known: Tally | null, record: LogRecord): Tally =>
  known
    ? {
        records: known.records + 1,
        bytes: known.bytes + known.last.payload.length,
        last: record,
        before: known.last,
      }
    : { records: 0, bytes: 0, last: record, before: null }

/** Throws `not_available` for a log that cannot be cut. */
const requireStarts = (log: EventLog): ((topics: readonly Topic[]) => Promise<Offsets>) => {
  if (log.starts && log.cut) return (topics) => log.starts!(topics)
  throw new InstarError('not_available', 'records of this log cannot be deleted')
}

/** What a record allows and was not deleted. `tally`: of the records below `start` that were compared. */
type OpenCut = LogCut['starts'][number] & { tally: Tally | null }

const openIn = (cuts: readonly Cut[], starts: Offsets): OpenCut[] =>
  cuts.flatMap(({ event }) =>
    event.starts
      .filter(({ topic, partition, start }) => start > (starts[topic as Topic]?.[partition] ?? 0))
      .map((one) => ({ ...one, tally: null })),
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

/** The offset up to which all of the checkpoints whose states fold the topic have folded a partition. */
const foldedBy =
  (checkpoints: readonly FoldedCheckpoint[]) =>
  (topic: Topic, partition: number): number =>
    checkpoints.reduce((limit, { topics, event: { positions } }) => {
      if (!topics.includes(topic)) return limit
      return Math.min(limit, positions.find((one) => one.topic === topic && one.partition === partition)?.next ?? 0)
    }, Infinity)

const limitsOf = async ({ log, archive, checkpoints, since, needed }: CutOptions, starts: Offsets): Promise<Limits> => {
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
