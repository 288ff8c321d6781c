/** A log that was archived and cut, as `instar archive cut` does it. */
import { encodeEvent, recordId } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import {
  openFolderStore,
  writeArchive,
  type ArchiveStore,
  type EventLog,
  type LogRecord,
  type Offsets,
} from '@instar/log'
import { all } from './harness.ts'

type CutOptions = {
  schemas: Readonly<Record<string, string>>
  /** Bytes of a full object. */
  objectBytes?: number
  /** Default: the folder `archive`. */
  store?: ArchiveStore
}

/** Archives all of the log. Resolves with the manifest's SHA-256. */
export const archiveTo = async (
  log: EventLog,
  archive: string,
  { schemas, objectBytes = 4096, store }: CutOptions,
): Promise<string> => {
  const to = store ?? openFolderStore(archive, true)
  try {
    const sizes = { object: objectBytes, manifest: 1 << 20 }
    return (await writeArchive({ from: log, schemas: () => schemas, to, sizes, now: () => 1 })).manifest
  } finally {
    await to.close()
  }
}

/** `below`: of a topic that is one sequence, the offset below which it is cut; else by partition. Resolves with what `starts` gives. */
export const cutBelow = async (
  log: EventLog,
  below: Partial<Record<Topic, number | Readonly<Record<number, number>>>>,
  { archive, manifest }: { archive: string; manifest: string },
): Promise<Offsets> => {
  const topics = Object.keys(below) as Topic[]
  const listed: { topic: Topic; partition: number; start: number; record: string | null }[] = []
  for (const topic of topics) {
    const records = await all(log.read(topic, { from: await log.starts!([topic]) }))
    for (let partition = 0; partition < log.partitions(topic); partition += 1) {
      const at = below[topic]!
      const limit = typeof at === 'number' ? at : (at[partition] ?? 0)
      const kept = records.findLast((record) => record.partition === partition && record.offset < limit)
      if (!kept) continue
      const before = records.findLast((record) => record.partition === partition && record.offset < kept.offset)
      listed.push({ topic, partition, start: kept.offset, record: before ? idOf(before) : null })
    }
  }
  await log.append([
    encodeEvent({ type: 'LogCut', starts: listed, archive, manifest, checkpoints: [], who: 'test', at: 1 }),
  ])
  const starts: Partial<Record<Topic, Record<number, number>>> = {}
  for (const { topic, partition, start } of listed) (starts[topic] ??= {})[partition] = start
  await log.cut!(starts)
  return log.starts!(topics)
}

const idOf = (record: LogRecord): string => recordId(record)
