/** Compares the records of a destination with the beginning of the source. */
import { InstarError } from '@instar/events/errors'
import { recordId } from '@instar/events/ids'
import type { Topic } from '@instar/events/flow'
import type { EventLog, LogRecord, Offsets } from '../port.ts'
import { Chains } from './chains.ts'
import { Lane } from './lane.ts'

export type CopySide = { log: EventLog; ends: Offsets }

/**
 * The first record of a key or partition in which two logs differ. The position is that of the source, else that of
 * the destination.
 */
export type Difference = { topic: Topic; key: string; partition: number; offset: number; what: string }

/**
 * The part of a topic that is copied already: `from`, the source's next offsets, or `have`, the record count of each
 * key (`copyKey`).
 */
export type CopiedPart = { records: number; from: Offsets; have: Pick<Chains, 'keys' | 'count'> | undefined }

/**
 * Records of one key are ordered. Announcements have no order, and the destination may have some of its own (setup
 * appends one to a new log): those stay, and missing ones of the source are added.
 */
export const copyKey = (record: LogRecord): string => (record.topic === 'upgrades' ? recordId(record) : record.key)

/** Called with each record that is read. */
type OnRead = (record: LogRecord) => void

/** Throws `copy_differs` when the destination holds anything that is not the beginning of the source. */
export const findCopied = (
  source: CopySide,
  destination: CopySide,
  topic: Topic,
  read: OnRead = () => undefined,
): Promise<CopiedPart> =>
  topic === 'upgrades'
    ? announced(source, destination, read)
    : source.log.partitions(topic) === destination.log.partitions(topic)
      ? byPartition(source, destination, topic, read)
      : byKey(source, destination, topic, read)

export const differs = (difference: Difference): InstarError => {
  const { topic, key, partition, offset, what } = difference
  return new InstarError('copy_differs', `${topic} ${partition}@${offset}, key ${key}: ${what}`, difference)
}

const MORE = 'the destination holds this record, the source holds none in its place'
const MISSING = 'the destination does not hold this record'

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
      ({ log, ends }) => new Lane(log, topic, partition, { to: ends }),
    ) as [Lane, Lane]
    try {
      while (theirs.head || (await theirs.fill())) {
        if (!ours.head && !(await ours.fill())) throw differs(placeOf(theirs.head!, MORE))
        const what = difference(ours.head!, theirs.head!)
        if (what !== undefined) throw differs(placeOf(ours.head!, what))
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
  return { records, from: { [topic]: from }, have: undefined }
}

/** The same number of records of each key, hashed on both sides. */
const byKey = async (source: CopySide, destination: CopySide, topic: Topic, read: OnRead): Promise<CopiedPart> => {
  const have = await chainsOf(destination, topic, read)
  if (have.records === 0) return { records: 0, from: {}, have: undefined }
  const ours = new Chains()
  for await (const records of source.log.read(topic, { to: source.ends })) {
    for (const record of records) if (ours.count(record.key) < have.count(record.key)) ours.add(record)
  }
  for (const key of have.keys()) {
    if (!ours.sameKey(key, have)) throw differs((await firstOfKey(source, destination, topic, key))!)
  }
  return { records: have.records, from: {}, have }
}

/** How many of the source's announcements the destination has, each as often as both have it. */
const announced = async (source: CopySide, destination: CopySide, read: OnRead): Promise<CopiedPart> => {
  const theirs = await countsOf(destination, 'upgrades', read)
  const both = [...(await countsOf(source, 'upgrades'))].map(
    ([id, count]) => [id, Math.min(count, theirs.get(id) ?? 0)] as const,
  )
  const have = new Map(both.filter(([, count]) => count > 0))
  const records = [...have.values()].reduce((sum, count) => sum + count, 0)
  return { records, from: {}, have: { keys: () => have.keys(), count: (id) => have.get(id) ?? 0 } }
}

/** Of each of a topic's `copyKey`s, how many records there are up to the ends. */
export const countsOf = async (
  { log, ends }: CopySide,
  topic: Topic,
  read: OnRead = () => undefined,
): Promise<Map<string, number>> => {
  const counts = new Map<string, number>()
  for await (const records of log.read(topic, { to: ends })) {
    for (const record of records) {
      counts.set(copyKey(record), (counts.get(copyKey(record)) ?? 0) + 1)
      read(record)
    }
  }
  return counts
}

/** Every record of a topic up to the ends that `counts`. */
export const chainsOf = async (
  { log, ends }: CopySide,
  topic: Topic,
  read: OnRead = () => undefined,
  counts: (record: LogRecord) => boolean = () => true,
): Promise<Chains> => {
  const chains = new Chains()
  for await (const records of log.read(topic, { to: ends })) {
    for (const record of records) {
      if (counts(record)) chains.add(record)
      read(record)
    }
  }
  return chains
}

/** The first of a topic's records in which a finished copy differs; in the order of the source's keys. */
export const firstDifference = async (
  source: CopySide,
  destination: CopySide,
  topic: Topic,
): Promise<Difference | undefined> => {
  const ours = await chainsOf(source, topic)
  const theirs = await chainsOf(destination, topic)
  for (const key of new Set([...ours.keys(), ...theirs.keys()])) {
    if (!ours.sameKey(key, theirs)) return firstOfKey(source, destination, topic, key)
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
    if (!our) return their && placeOf(their, MORE)
    const what = their ? difference(our, their) : MISSING
    if (what !== undefined) return placeOf(our, what)
  }
}

async function* each(pages: AsyncIterable<LogRecord[]>): AsyncGenerator<LogRecord> {
  for await (const records of pages) yield* records
}

const placeOf = ({ topic, key, partition, offset }: LogRecord, what: string): Difference => ({
  topic,
  key,
  partition,
  offset,
  what,
})

const bytesOf = ({ payload }: LogRecord): Buffer => Buffer.from(payload.buffer, payload.byteOffset, payload.length)

const difference = (ours: LogRecord, theirs: LogRecord): string | undefined => {
  if (ours.key !== theirs.key) return `the destination holds a record of the key ${theirs.key} in its place`
  if (ours.schema !== theirs.schema) return `it is a ${ours.schema}, the destination holds a ${theirs.schema}`
  if (ours.timestamp !== theirs.timestamp)
    return `its time is ${ours.timestamp}, the destination's is ${theirs.timestamp}`
  return bytesOf(ours).equals(bytesOf(theirs)) ? undefined : 'its bytes are others at the destination'
}
