/**
 * Records that an earlier run passed over as damaged and that the log has whole again, as after a row was restored from a copy:
 * the object whose range they are in is written anew with them.
 */
import type { Topic } from '@instar/events/flow'
import type { EventLog, LogRecord } from '../port.ts'
import { ObjectWriter } from './container.ts'
import { objectName, sha256, type DamagedRecords, type Manifest, type ObjectEntry } from './manifest.ts'
import type { ArchiveStore } from './store.ts'

type PartitionEntry = Manifest['topics'][Topic][number]
type Place = { topic: Topic; partition: number; entry: PartitionEntry }
type Ports = { from: EventLog; to: ArchiveStore; objectBytes: number; signal: AbortSignal | undefined }

/** `records`: that were added to objects; `reread`: listed behind the last object until now, and read again by this run. */
export type Repaired = { records: number; objects: number; bytes: number; reread: number }

/** Blobs are numbers, which do not become smaller. */
export const codecOf = (topic: Topic): 'null' | 'deflate' => (topic === 'blobs' ? 'null' : 'deflate')

/**
 * Writes the objects and changes the entry: the manifest still has to be saved. Only where each damaged record of the partition
 * is listed; an object of which the log has other records damaged now stays as it is. Throws errors of the log and of the store.
 */
export const archiveRepaired = async (ports: Ports, place: Place): Promise<Repaired> => {
  const { topic, partition, entry } = place
  const done: Repaired = { records: 0, objects: 0, bytes: 0, reread: 0 }
  const { damaged } = entry
  if (!damaged || damaged.records > damaged.offsets.length) return done
  const whole: number[] = []
  // What a cut has deleted stays listed, and an object of which it has deleted a part stays as it is.
  const start = (await ports.from.starts?.([topic]))?.[topic]?.[partition] ?? 0
  for (const offset of damaged.offsets) {
    if (offset < start) continue
    const record = await ports.from.at({ topic, partition, offset })
    if (record && !record.damaged) whole.push(offset)
  }
  for (const [at, object] of entry.objects.entries()) {
    const inside = whole.filter((offset) => offset >= object.from && offset < object.to)
    if (inside.length === 0 || object.from < start) continue
    const made = await rewritten(ports, place, object)
    if (made.entry.records !== object.records + inside.length) continue
    await ports.to.write(objectName(topic, partition, made.entry), made.bytes, ports.signal)
    entry.objects[at] = made.entry
    entry.damaged = without(entry.damaged, (offset) => inside.includes(offset))
    done.records += inside.length
    done.objects += 1
    done.bytes += made.bytes.length
  }
  const covered = entry.objects.at(-1)?.to ?? 0
  const again = whole.find((offset) => offset >= covered)
  if (again === undefined) return done
  done.reread = damaged.offsets.filter((offset) => offset >= again && !whole.includes(offset)).length
  entry.damaged = without(entry.damaged, (offset) => offset >= again)
  return done
}

/** The object with all records of its range that are whole now. */
const rewritten = async (
  { from, objectBytes }: Ports,
  { topic, partition }: Place,
  object: ObjectEntry,
): Promise<{ entry: ObjectEntry; bytes: Buffer }> => {
  const writer = new ObjectWriter(codecOf(topic), objectBytes)
  const range = (offset: number) => ({ [topic]: { [partition]: offset } })
  let first: LogRecord | undefined
  let last: LogRecord | undefined
  let records = 0
  for await (const page of from.read(topic, { partition, from: range(object.from), to: range(object.to) }))
    for (const record of page) {
      if (record.damaged) continue
      first ??= record
      last = record
      records += 1
      writer.add(record)
    }
  const bytes = writer.finish()
  const ends = { first: first?.offset ?? object.first, last: last?.offset ?? object.last }
  const { times } = writer
  return { entry: { ...object, ...ends, records, bytes: bytes.length, sha256: sha256(bytes), times }, bytes }
}

const without = (
  damaged: DamagedRecords | undefined,
  isGone: (offset: number) => boolean,
): DamagedRecords | undefined => {
  const offsets = (damaged?.offsets ?? []).filter((offset) => !isGone(offset))
  return offsets.length === 0 ? undefined : { records: offsets.length, offsets, end: offsets.at(-1)! + 1 }
}
