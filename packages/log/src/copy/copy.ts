/**
 * Copies one log to another. The copy has the same records, with the same ids and times, in the same order per key.
 * Partition counts may differ, and offsets too, except between logs whose topics are one sequence (`sequential`): a copy
 * into an empty one keeps them. The destination must contain a prefix of the source, apart from announcements of versions;
 * this is verified first. A second copy continues an interrupted one, and adds what was appended to the source since a
 * finished one.
 */
import { changed } from '@instar/events/codec'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { partitionOf } from '../partition.ts'
import type { Append, CopySource, EventLog, LogRecord, Offsets } from '../port.ts'
import {
  chainsOf,
  copyKey,
  countsOf,
  findCopied,
  firstDifference,
  type Difference,
  type CopiedPart,
  type CopySide,
} from './compare.ts'
import { endsOfAll } from './ends.ts'
import { inOrder } from './partition-reader.ts'
import { aborted, Meter, type CopyProgress, type CopyObserver } from './meter.ts'

export type CopyOptions = {
  from: CopySource
  /** No other process may write to this log during the copy. */
  to: EventLog
  onProgress?(progress: CopyProgress): void
  /** Ends the copy with `aborted`; records written so far stay. */
  signal?: AbortSignal
}

/** `bytes`: of payloads. `digest`: see `HashChains`. */
type TopicCopy = { records: number; bytes: number; digest: string }

export type CopyReport = {
  /** The source's topics as of the start of the copy. */
  topics: Record<Topic, TopicCopy>
  /** Records that this copy wrote. */
  copied: number
  /** Records that were at the destination before. */
  skipped: number
  /** Whether the digests of both logs, read after the copy, are equal. */
  equal: boolean
  first: Difference | null
  /** Whether records were appended to the source during the copy. */
  sourceGrew: boolean
}

/** Topics in the order in which they are copied: `blobs` first, since records of other topics refer to blobs. */
const ORDER: readonly Topic[] = ['blobs', ...TOPICS.filter((topic) => topic !== 'blobs')]

/** Throws `copy_differs` before a record is written, `bad_record`, `aborted`, and errors of the logs. */
export const copyLog = async (options: CopyOptions): Promise<CopyReport> => (await copyUpToNow(options)).report

/** Up to where both logs have been read and compared. */
export type Reached = { source: Offsets; copy: Offsets }

/** As `copyLog`. A copy goes on from `reached` by `copyRest`. */
export const copyUpToNow = async ({
  from,
  to,
  onProgress = () => undefined,
  signal,
}: CopyOptions): Promise<{ report: CopyReport; reached: Reached }> => {
  const observer: CopyObserver = { onProgress, signal }
  const source: CopySide = { log: from, ends: await endsOfAll(from) }
  const before: CopySide = { log: to, ends: await to.ends(TOPICS) }

  const found = new Map<Topic, CopiedPart>()
  for (const topic of ORDER) {
    const meter = new Meter({ phase: 'compare', topic }, { to: before.ends }, observer)
    found.set(topic, await findCopied(source, before, topic, meter.read))
    meter.end()
  }
  if (!sameEnds(before.ends, await to.ends(TOPICS)))
    throw new InstarError(
      'copy_differs',
      'the destination changed while it was compared: another process writes to it, or the last appends of an earlier copy finished meanwhile. In the second case run the copy again.',
    )

  const { reached, ...rest } = await copyRest(source, { log: to, start: {} }, found, observer)
  const skipped = [...found.values()].reduce((sum, { records }) => sum + records, 0)
  return { report: { ...rest, skipped, sourceGrew: !sameEnds(source.ends, await from.ends(TOPICS)) }, reached }
}

/**
 * Copies `found` to the ends of the source, then compares both logs, each from its start. Throws as `copyLog` does; the records of
 * the destination after its start must be those that this call appends.
 */
export const copyRest = async (
  source: CopySide,
  { log: to, start }: { log: EventLog; start: Offsets },
  found: ReadonlyMap<Topic, CopiedPart>,
  observer: CopyObserver,
): Promise<Pick<CopyReport, 'topics' | 'copied' | 'equal' | 'first'> & { reached: Reached }> => {
  let copied = 0
  for (const topic of ORDER) copied += await copyTopic(source, to, topic, found.get(topic)!, observer)

  const after: CopySide = { log: to, start, ends: await to.ends(TOPICS) }
  const topics: Partial<Record<Topic, TopicCopy>> = {}
  let first: Difference | null = null
  let equal = true
  for (const topic of ORDER) {
    const ours = (topics[topic] = await readBack(source, topic, 'check source', observer))
    const theirs = await readBack(
      after,
      topic,
      'check copy',
      observer,
      topic === 'upgrades' ? await countsOf(source, topic) : undefined,
    )
    if (ours.digest === theirs.digest) continue
    equal = false
    first ??= (await firstDifference(source, after, topic)) ?? null
  }
  return {
    topics: topics as Record<Topic, TopicCopy>,
    copied,
    equal,
    first,
    reached: { source: source.ends, copy: after.ends },
  }
}

/**
 * Appends pages one at a time, so that the destination is a prefix of the source whenever the copy ends. The next page
 * is read during an append. Returns the number of records appended.
 */
const copyTopic = async (
  source: CopySide,
  to: EventLog,
  topic: Topic,
  { from, counts }: CopiedPart,
  observer: CopyObserver,
): Promise<number> => {
  const range = { from, to: source.ends }
  const meter = new Meter({ phase: 'copy', topic }, range, observer)
  const skip = counts && new Map(Array.from(counts.keys(), (key) => [key, counts.count(key)]))
  let copied = 0
  let writing: Promise<unknown> = Promise.resolve()
  for await (const page of inOrder(source.log, topic, range, to)) {
    await orAborted(writing, observer.signal)
    page.forEach(meter.read)
    const records = skip ? page.filter((record) => !consume(skip, copyKey(record))) : page
    if (records.length === 0) continue
    copied += records.length
    const batch = to.sequential ? records : byPartition(records, to.partitions(topic))
    writing = to.append(batch.map(asAppend))
    writing.catch(() => undefined)
  }
  await orAborted(writing, observer.signal)
  meter.end()
  return copied
}

/** Reads a topic and computes its digest. `of`: only these records, counted by `copyKey`. */
const readBack = async (
  side: CopySide,
  topic: Topic,
  phase: 'check source' | 'check copy',
  observer: CopyObserver,
  of?: Map<string, number>,
): Promise<TopicCopy> => {
  const meter = new Meter({ phase, topic }, { from: side.start ?? {}, to: side.ends }, observer)
  const chains = await chainsOf(side, topic, meter.read, (record) => !of || consume(of, copyKey(record)))
  meter.end()
  return { records: chains.records, bytes: chains.bytes, digest: chains.digest() }
}

/**
 * Groups records by the destination's partition, for few large batches: Kafka writes and flushes each partition's batch
 * on its own. Readers only see the order within a partition.
 */
const byPartition = (records: readonly LogRecord[], count: number): LogRecord[] =>
  [...Map.groupBy(records, ({ key }) => partitionOf(key, count)).values()].flat()

/** Throws `bad_record` for a record that does not match its checksum: at the destination it would match a new one. */
const asAppend = (record: LogRecord): Append => {
  if (record.damaged) {
    const { message, details } = changed(record)
    const todo = 'restore the log from a copy, or copy it without its damaged records (`--skip-damaged`)'
    throw new InstarError('bad_record', `${message}; ${todo}`, details)
  }
  const { topic, key, schema, payload, timestamp } = record
  return { topic, key, schema, payload, timestamp }
}

/** Decrements the count of a key. Returns false if it is 0. */
const consume = (counts: Map<string, number>, key: string): boolean => {
  const count = counts.get(key)
  if (count === undefined) return false
  if (count === 1) counts.delete(key)
  else counts.set(key, count - 1)
  return true
}

export const sameEnds = (a: Offsets, b: Offsets): boolean =>
  TOPICS.every((topic) =>
    Object.entries(b[topic] ?? {}).every(([partition, end]) => (a[topic]?.[Number(partition)] ?? 0) === end),
  )

/**
 * Waits for an append, which may take as long as its log is unavailable; throws `aborted` when the signal is aborted.
 */
const orAborted = async (writing: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> => {
  if (!signal) return void (await writing)
  const stop = Promise.withResolvers<never>()
  const onAbort = (): void => stop.reject(aborted())
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  try {
    await Promise.race([writing, stop.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
