/** Compares the records of a destination with a prefix of the source. */
import { InstarError } from '@instar/events/errors'
import { recordId } from '@instar/events/ids'
import type { Topic } from '@instar/events/flow'
import type { CopySource, LogRecord, Offsets } from '../port.ts'
import { HashChains } from './hash-chains.ts'
import { PartitionReader } from './partition-reader.ts'

/** The records of a log from `start` (default: its first) up to `ends`. */
export type CopySide = { log: CopySource; start?: Offsets; ends: Offsets }

/**
 * The first record of a key or partition in which two logs differ. The position is that on the source, or on the
 * destination if the source lacks the record.
 */
export type Difference = { topic: Topic; key: string; partition: number; offset: number; what: string }

/**
 * The part of a topic that is at the destination. `from`: the source's next offsets; `counts`: the number of records of
 * each `copyKey`, if the partition counts differ.
 */
export type CopiedPart = { records: number; from: Offsets; counts: Pick<HashChains, 'keys' | 'count'> | undefined }

/**
 * The key whose records are compared: the record's key. Announcements (topic `upgrades`) are compared by record id,
 * since the destination may have its own (setup appends one to a new log): those stay, and the source's are added.
 */
export const copyKey = (record: LogRecord): string => (record.topic === 'upgrades' ? recordId(record) : record.key)

/** Called with each record read, for progress. */
type OnRead = (record: LogRecord) => void

/** Throws `copy_differs` unless the destination's records are a prefix of the source's. */
export const findCopied = (
  source: CopySide,
  destination: CopySide,
  topic: Topic,
  read: OnRead = () => undefined,
): Promise<CopiedPart> =>
  topic === 'upgrades'
    ? byRecord(source, destination, read)
    : source.log.partitions(topic) === destination.log.partitions(topic)
      ? byPartition(source, destination, topic, read)
      : byKey(source, destination, topic, read)

export const differs = (difference: Difference): InstarError => {
  const { topic, key, partition, offset, what } = difference
  return new InstarError('copy_differs', `${topic} ${partition}@${offset}, key ${key}: ${what}`, difference)
}

const MORE = 'the destination has this record, the source has none at its position'
const MISSING = 'the destination does not have this record'

const byPartition = async (
  source: CopySide,
  destination: CopySide,
  topic: Topic,
  read: OnRead,
): Promise<CopiedPart> => {
  const from: Record<number, number> = {}
  let records = 0
  for (let partition = 0; partition < source.log.partitions(topic); partition++) {
    if ((destination.ends[topic]?.[partition] ?? 0) === 0) continue
    const [ours, theirs] = [source, destination].map(
      ({ log, ends }) => new PartitionReader(log, topic, partition, { to: ends }),
    ) as [PartitionReader, PartitionReader]
    try {
      while (theirs.head || (await theirs.fill())) {
        if (!ours.head && !(await ours.fill())) throw differs(differenceAt(theirs.head!, MORE))
        const what = difference(ours.head!, theirs.head!)
        if (what !== undefined) throw differs(differenceAt(ours.head!, what))
        read(theirs.head!)
        from[partition] = ours.head!.offset + 1
        records++
        ours.step()
        theirs.step()
      }
    } finally {
      await Promise.allSettled([ours.close(), theirs.close()])
    }
  }
  return { records, from: { [topic]: from }, counts: undefined }
}

/** Compares, per key, the destination's records with as many of the source's, by hash. */
const byKey = async (source: CopySide, destination: CopySide, topic: Topic, read: OnRead): Promise<CopiedPart> => {
  const copied = await chainsOf(destination, topic, read)
  if (copied.records === 0) return { records: 0, from: {}, counts: undefined }
  const sourceChains = new HashChains()
  for await (const records of source.log.read(topic, { to: source.ends })) {
    for (const record of records)
      if (sourceChains.count(record.key) < copied.count(record.key)) sourceChains.add(record)
  }
  for (const key of copied.keys()) {
    if (!sourceChains.sameKey(key, copied)) throw differs((await firstOfKey(source, destination, topic, key))!)
  }
  return { records: copied.records, from: {}, counts: copied }
}

/** Counts the announcements that both sides have, by record id. */
const byRecord = async (source: CopySide, destination: CopySide, read: OnRead): Promise<CopiedPart> => {
  const destinationCounts = await countsOf(destination, 'upgrades', read)
  const both = [...(await countsOf(source, 'upgrades'))].map(
    ([id, count]) => [id, Math.min(count, destinationCounts.get(id) ?? 0)] as const,
  )
  const copied = new Map(both.filter(([, count]) => count > 0))
  const records = [...copied.values()].reduce((sum, count) => sum + count, 0)
  return { records, from: {}, counts: { keys: () => copied.keys(), count: (id) => copied.get(id) ?? 0 } }
}

/** The number of records of each `copyKey` of a topic up to the ends. */
export const countsOf = async (
  { log, start, ends }: CopySide,
  topic: Topic,
  read: OnRead = () => undefined,
): Promise<Map<string, number>> => {
  const counts = new Map<string, number>()
  for await (const records of log.read(topic, { ...(start ? { from: start } : {}), to: ends })) {
    for (const record of records) {
      counts.set(copyKey(record), (counts.get(copyKey(record)) ?? 0) + 1)
      read(record)
    }
  }
  return counts
}

/** The hash chains of a topic's records up to the ends for which `includes` is true. */
export const chainsOf = async (
  { log, start, ends }: CopySide,
  topic: Topic,
  read: OnRead = () => undefined,
  includes: (record: LogRecord) => boolean = () => true,
): Promise<HashChains> => {
  const chains = new HashChains()
  for await (const records of log.read(topic, { ...(start ? { from: start } : {}), to: ends })) {
    for (const record of records) {
      if (includes(record)) chains.add(record)
      read(record)
    }
  }
  return chains
}

/** The first difference of a finished copy, in the order of the source's keys. */
export const firstDifference = async (
  source: CopySide,
  destination: CopySide,
  topic: Topic,
): Promise<Difference | undefined> => {
  const sourceChains = await chainsOf(source, topic)
  const destinationChains = await chainsOf(destination, topic)
  for (const key of new Set([...sourceChains.keys(), ...destinationChains.keys()])) {
    if (!sourceChains.sameKey(key, destinationChains)) return firstOfKey(source, destination, topic, key)
  }
  return undefined
}

const firstOfKey = async (
  source: CopySide,
  destination: CopySide,
  topic: Topic,
  key: string,
): Promise<Difference | undefined> => {
  const [ours, theirs] = [source, destination].map(({ log, ends }) => each(log.read(topic, { key, to: ends }))) as [
    AsyncGenerator<LogRecord>,
    AsyncGenerator<LogRecord>,
  ]
  for (;;) {
    const [{ value: our }, { value: their }] = (await Promise.all([ours.next(), theirs.next()])) as [
      IteratorResult<LogRecord, undefined>,
      IteratorResult<LogRecord, undefined>,
    ]
    if (!our) return their && differenceAt(their, MORE)
    const what = their ? difference(our, their) : MISSING
    if (what !== undefined) return differenceAt(our, what)
  }
}

async function* each(pages: AsyncIterable<LogRecord[]>): AsyncGenerator<LogRecord> {
  for await (const records of pages) yield* records
}

export const differenceAt = ({ topic, key, partition, offset }: LogRecord, what: string): Difference => ({
  topic,
  key,
  partition,
  offset,
  what,
})

const bytesOf = ({ payload }: LogRecord): Buffer => Buffer.from(payload.buffer, payload.byteOffset, payload.length)

/** How a record of the source and that of the destination differ; undefined if they are equal. */
export const difference = (ours: LogRecord, theirs: LogRecord): string | undefined => {
  if (ours.key !== theirs.key) return `the destination has a record of key ${theirs.key} at its position`
  if (ours.schema !== theirs.schema) return `its schema is ${ours.schema}, at the destination ${theirs.schema}`
  if (ours.timestamp !== theirs.timestamp)
    return `its timestamp is ${ours.timestamp}, at the destination ${theirs.timestamp}`
  return bytesOf(ours).equals(bytesOf(theirs)) ? undefined : 'its bytes differ at the destination'
}
