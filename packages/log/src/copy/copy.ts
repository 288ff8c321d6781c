/**
 * Copies one log to another: the same bytes, so the same ids and times, and the order of each key. Positions are not
 * copied, and the partition counts may differ. The destination must hold a prefix of the source (except for
 * announcements of versions, of which it may have its own); it is compared with the source first. A copy that was
 * interrupted is continued by the next one, and a finished copy is extended by what was appended to the source since.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { partitionOf } from '../partition.ts'
import type { Append, EventLog, LogRecord, Offsets } from '../port.ts'
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
import { inTimeOrder } from './lane.ts'
import { aborted, Meter, type CopyProgress, type CopyObserver } from './meter.ts'

export type CopyOptions = {
  from: EventLog
  /** No other process may write to it during the copy. */
  to: EventLog
  onProgress?(progress: CopyProgress): void
  /** Ends the copy with `aborted`; what was written stays. */
  signal?: AbortSignal
}

export type TopicCopy = { records: number; bytes: number; digest: string }

export type CopyReport = {
  /** Of the source, as it was when the copy began. */
  topics: Record<Topic, TopicCopy>
  /** Records that were written, and that were there. */
  copied: number
  skipped: number
  /** By the digests of what was read back from both. */
  equal: boolean
  first: Difference | null
  /** The source has more than when the copy began. */
  sourceGrew: boolean
}

/** What records name comes before them: blobs before all, versions last. */
const ORDER: readonly Topic[] = ['blobs', ...TOPICS.filter((topic) => topic !== 'blobs')]

/** Throws `copy_differs` before anything is written, `aborted`, and what the logs throw. */
export const copyLog = async ({ from, to, onProgress = () => undefined, signal }: CopyOptions): Promise<CopyReport> => {
  const observer: CopyObserver = { onProgress, signal }
  const source: CopySide = { log: from, ends: await from.ends(TOPICS) }
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
      'the destination changed while it was compared: somebody else writes to it, or the last records of an earlier copy were still on their way. In the second case run it again.',
    )

  let copied = 0
  for (const topic of ORDER) copied += await copyTopic(source, to, topic, found.get(topic)!, observer)

  const after: CopySide = { log: to, ends: await to.ends(TOPICS) }
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
    skipped: [...found.values()].reduce((sum, { records }) => sum + records, 0),
    equal,
    first,
    sourceGrew: !sameEnds(source.ends, await from.ends(TOPICS)),
  }
}

/** One append at a time, so that what is there is a beginning whenever it ends; the next is read meanwhile. */
const copyTopic = async (
  source: CopySide,
  to: EventLog,
  topic: Topic,
  { from, have }: CopiedPart,
  observer: CopyObserver,
): Promise<number> => {
  const range = { from, to: source.ends }
  const meter = new Meter({ phase: 'copy', topic }, range, observer)
  const left = have && new Map(Array.from(have.keys(), (key) => [key, have.count(key)]))
  let copied = 0
  let writing: Promise<unknown> = Promise.resolve()
  for await (const page of inTimeOrder(source.log, topic, range)) {
    await orAborted(writing, observer.signal)
    page.forEach(meter.read)
    const records = left ? page.filter((record) => !taken(left, copyKey(record))) : page
    if (records.length === 0) continue
    copied += records.length
    writing = to.append(byPartition(records, to.partitions(topic)).map(asAppend))
    writing.catch(() => undefined)
  }
  await orAborted(writing, observer.signal)
  meter.end()
  return copied
}

/** `of`: these records alone, which the source has; the destination may have more. */
const readBack = async (
  side: CopySide,
  topic: Topic,
  phase: 'check source' | 'check copy',
  observer: CopyObserver,
  of?: Map<string, number>,
): Promise<TopicCopy> => {
  const meter = new Meter({ phase, topic }, { to: side.ends }, observer)
  const chains = await chainsOf(side, topic, meter.read, (record) => !of || taken(of, copyKey(record)))
  meter.end()
  return { records: chains.records, bytes: chains.bytes, digest: chains.digest() }
}

/**
 * The order within a partition is all that readers see. Together, they are written in few large pieces: Kafka takes
 * and flushes each partition's by itself.
 */
const byPartition = (records: readonly LogRecord[], count: number): LogRecord[] =>
  [...Map.groupBy(records, ({ key }) => partitionOf(key, count)).values()].flat()

const asAppend = ({ topic, key, schema, payload, timestamp }: LogRecord): Append => ({
  topic,
  key,
  schema,
  payload,
  timestamp,
})

/** One of the records of the `copyKey` that are at the destination. */
const taken = (left: Map<string, number>, key: string): boolean => {
  const count = left.get(key)
  if (count === undefined) return false
  if (count === 1) left.delete(key)
  else left.set(key, count - 1)
  return true
}

const sameEnds = (a: Offsets, b: Offsets): boolean =>
  TOPICS.every((topic) =>
    Object.entries(b[topic] ?? {}).every(([partition, end]) => (a[topic]?.[Number(partition)] ?? 0) === end),
  )

/** An append waits for as long as its log is away. */
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
