/**
 * Archives a log: writes the records that the archive lacks as objects, and then a manifest that names them. A run that ends
 * at any moment leaves the last manifest, which is true, and objects that none names; the next run goes on from there.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { createHash } from 'node:crypto'
import { endsOfAll } from '../copy/ends.ts'
import { Meter, type CopyProgress } from '../copy/meter.ts'
import type { EventLog, LogRecord, Offsets } from '../port.ts'
import { OBJECT_BYTES, ObjectWriter, type Archived } from './container.ts'
import {
  addDamaged,
  endOfPartition,
  MANIFEST,
  manifestText,
  MAX_MANIFEST_BYTES,
  objectName,
  parseManifest,
  sha256,
  type DamagedRecords,
  type Manifest,
  type ObjectEntry,
} from './manifest.ts'
import { archiveRepaired, codecOf } from './repaired.ts'
import { damagedOf, topicsOf, type ArchivedTopic, type DamagedReport } from './report.ts'
import type { ArchiveStore } from './store.ts'

export type ArchiveOptions = {
  from: EventLog
  /** The schemas that the log has now: name → Avro JSON. */
  schemas(): Readonly<Record<string, string>>
  to: ArchiveStore
  /** The positions up to which the log is archived, exclusive. Default: its ends at the start. */
  until?: Offsets
  onProgress?(progress: CopyProgress): void
  /** Ends with `aborted`; what the last manifest names stays. */
  signal?: AbortSignal
  /** Milliseconds since 1970. */
  now?: () => number
  /** Bytes of a full object, and bytes of objects after which a manifest is written in the middle of a run. */
  sizes?: { object: number; manifest: number }
}

export type ArchiveReport = {
  /** What the archive holds after the run. */
  topics: Record<Topic, ArchivedTopic>
  /** Records of the log that did not match their checksum, of this and earlier runs: in no object. */
  damaged: DamagedReport
  /** What this run added. `damaged`: records that it passed over. */
  added: { records: number; objects: number; bytes: number; damaged: number }
  /** The sha256 of the manifest: whoever knows it knows the whole archive. */
  manifest: string
}

/** Topics in the order in which they are archived: as they refer to one another, `blobs` first. */
const ORDER: readonly Topic[] = ['blobs', ...TOPICS.filter((topic) => topic !== 'blobs')]
const SIZES = { object: OBJECT_BYTES, manifest: 256 << 20 }

/** Identifies a record at its position. */
const recordDigest = ({ offset, timestamp, schema, key, payload }: Archived): string =>
  createHash('sha256')
    .update(`${JSON.stringify([offset, timestamp, schema, key])}\n`)
    .update(payload)
    .digest('hex')

/**
 * A record that does not match its checksum is passed over, as readers do, and listed in the manifest; one that a later run finds
 * whole is archived by it. Throws
 * `archive_differs` before anything is written if the archive is of another log; `archive_damaged`, `archive_unavailable`, `aborted`, and errors of the log.
 */
export const writeArchive = async (options: ArchiveOptions): Promise<ArchiveReport> => {
  const { from, schemas, to, onProgress = () => undefined, signal, now = Date.now, sizes = SIZES } = options
  const ends = await endsOfAll(from)
  const until = options.until ?? ends
  const stored = await to.read(MANIFEST, MAX_MANIFEST_BYTES, signal)
  const manifest = stored ? parseManifest(stored.bytes, to.address) : emptyManifest(from)
  await checkSameLog(manifest, from, ends, to.address)

  let tag = stored?.tag
  let text = stored?.bytes
  let sinceManifest = 0
  const added = { records: 0, objects: 0, bytes: 0, damaged: 0 }

  const saveManifest = async (complete: boolean): Promise<void> => {
    manifest.at = now()
    manifest.complete = complete
    // In the log's order, so that a restored embedded log numbers them alike.
    manifest.schemas = Object.entries(schemas()).map(([name, avro]) => ({ name, sha256: sha256(avro), avro }))
    text = Buffer.from(manifestText(manifest))
    // What this run writes, the next one and a restore must read.
    parseManifest(text, to.address)
    if (text.length > MAX_MANIFEST_BYTES)
      throw new InstarError(
        'archive_unavailable',
        `${to.address}: the manifest would have more than ${MAX_MANIFEST_BYTES} bytes: archive into another place`,
        { archive: to.address },
      )
    tag = await to.replace(MANIFEST, text, tag, signal)
    sinceManifest = 0
  }

  for (const topic of ORDER) {
    for (const [partition, entry] of manifest.topics[topic].entries()) {
      const repaired = await archiveRepaired(
        { from, to, objectBytes: sizes.object, signal },
        { topic, partition, entry },
      )
      added.records += repaired.records
      added.objects += repaired.objects
      added.bytes += repaired.bytes
      added.damaged -= repaired.reread
      sinceManifest += repaired.bytes
    }
    const starts = Object.fromEntries(manifest.topics[topic].map((_, p) => [p, endOfPartition(manifest, topic, p)]))
    const meter = new Meter(
      { phase: 'archive', topic },
      { from: { [topic]: starts }, to: until },
      { onProgress, signal },
    )
    for (const [partition, entry] of manifest.topics[topic].entries()) {
      /** The object on its way: one is written while the next is read. */
      let writing: Promise<void> | undefined
      const place = { topic, partition, start: starts[partition]!, covered: entry.objects.at(-1)?.to ?? 0 }
      const passed = (damaged: DamagedRecords | undefined): void => {
        if (!damaged) return
        entry.damaged = addDamaged(entry.damaged, damaged)
        added.damaged += damaged.records
      }
      for await (const { object, damaged } of objectsOf({ from, until, sizes }, place, meter.read)) {
        await writing
        if (!object) {
          passed(damaged)
          continue
        }
        if (sinceManifest >= sizes.manifest) await saveManifest(false)
        writing = to.write(objectName(topic, partition, object.entry), object.bytes, signal).then(() => {
          entry.objects.push(object.entry)
          entry.lastRecord = object.lastRecord
          passed(damaged)
          sinceManifest += object.entry.bytes
          added.records += object.entry.records
          added.objects++
          added.bytes += object.entry.bytes
        })
        writing.catch(() => undefined)
      }
      await writing
    }
    meter.end()
  }
  if (added.objects + added.damaged > 0 || !text || !manifest.complete) await saveManifest(true)
  return { topics: topicsOf(manifest), damaged: damagedOf(manifest), added, manifest: sha256(text!) }
}

type NewObject = { entry: ObjectEntry; bytes: Buffer; lastRecord: string }
/** `covered`: the offset up to which its objects go; from there to `start` are damaged records. */
type Place = { topic: Topic; partition: number; start: number; covered: number }

/**
 * The objects of the records of a partition from `start` on, each with the damaged records before its last one; without an
 * object: those after the last.
 */
async function* objectsOf(
  { from: log, until = {}, sizes = SIZES }: Pick<ArchiveOptions, 'from' | 'until' | 'sizes'>,
  { topic, partition, start, covered }: Place,
  read: (record: LogRecord) => void,
): AsyncGenerator<{ object?: NewObject; damaged?: DamagedRecords | undefined }> {
  const codec = codecOf(topic)
  let from = covered
  let writer = new ObjectWriter(codec, sizes.object)
  let first: number | undefined
  let last: LogRecord | undefined
  let records = 0
  let damaged: DamagedRecords | undefined
  const finish = (): { object: NewObject; damaged: DamagedRecords | undefined } => {
    const bytes = writer.finish()
    const to = last!.offset + 1
    const offsets = { from, to, first: first!, last: last!.offset }
    const entry = { ...offsets, records, bytes: bytes.length, sha256: sha256(bytes), times: writer.times }
    const finished = { object: { entry, bytes, lastRecord: recordDigest(last!) }, damaged }
    damaged = undefined
    writer = new ObjectWriter(codec, sizes.object)
    from = to
    first = undefined
    records = 0
    return finished
  }
  if ((until[topic]?.[partition] ?? 0) <= start) return
  for await (const page of log.read(topic, { partition, from: { [topic]: { [partition]: start } }, to: until })) {
    for (const record of page) {
      read(record)
      if (record.damaged) {
        const { offset } = record
        damaged = addDamaged(damaged, { records: 1, offsets: [offset], end: offset + 1 })
        continue
      }
      first ??= record.offset
      last = record
      records++
      if (writer.add(record)) yield finish()
    }
  }
  if (records > 0) yield finish()
  if (damaged) yield { damaged }
}

const emptyManifest = (log: EventLog): Manifest => ({
  format: 'instar-archive',
  version: 2,
  at: 0,
  complete: false,
  sequential: log.sequential === true,
  schemas: [],
  topics: Object.fromEntries(
    TOPICS.map((topic) => [
      topic,
      Array.from({ length: log.partitions(topic) }, () => ({ lastRecord: null, objects: [] })),
    ]),
  ) as unknown as Manifest['topics'],
})

/** Throws `archive_differs` unless the archive is of a beginning of this log. */
const checkSameLog = async (manifest: Manifest, log: EventLog, ends: Offsets, address: string): Promise<void> => {
  const starts = (await log.starts?.(TOPICS)) ?? {}
  const differs = (what: string): never => {
    throw new InstarError('archive_differs', `${address} is the archive of another log: ${what}`, { archive: address })
  }
  if (manifest.sequential !== (log.sequential === true))
    differs(manifest.sequential ? 'an embedded one' : 'one on Kafka')
  for (const topic of TOPICS) {
    const partitions = manifest.topics[topic]
    if (partitions.length !== log.partitions(topic))
      differs(`${topic} has ${partitions.length} partitions in the archive, ${log.partitions(topic)} on the log`)
    for (const [partition, { lastRecord, objects }] of partitions.entries()) {
      const start = starts[topic]?.[partition] ?? 0
      const archived = endOfPartition(manifest, topic, partition)
      if (start > archived)
        differs(`${topic} ${partition} is archived up to ${archived}, and the log was cut up to ${start}`)
      const last = objects.at(-1)
      if (!last) continue
      const end = ends[topic]?.[partition] ?? 0
      if (end < last.to) differs(`${topic} ${partition} is archived up to ${last.to}, the log ends at ${end}`)
      // Where only damaged records follow it, the last one may be cut.
      if (last.last < start) continue
      const record = await log.at({ topic, partition, offset: last.last })
      // A row that was damaged since says nothing of which log it is.
      if (record?.damaged) continue
      if (!record || recordDigest(record) !== lastRecord)
        differs(`the record at ${topic} ${partition}@${last.last} is another one`)
    }
  }
}
