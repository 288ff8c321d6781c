/**
 * What was cut from a topic, in the table `meta`, written in the transaction that deletes: a cut that was interrupted says how far it
 * came. The row of each partition's last record before the cut stays, by which positions, ends and times are known; the blocks of
 * the partition index before it go with their rows.
 */
import { isLater } from '@instar/events/codec'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { allowedStarts, cutAway, cutOf, notAllowed, type Cut } from '../cuts.ts'
import type { PartitionCounts } from '../partition.ts'
import type { Offsets } from '../port.ts'
import { BLOCK, deleteBlocks, isPartition, recordsMissing, rowPartition, type TopicCut } from './blocks.ts'
import { checksumOf, hasChecksums, type Row } from './checksum.ts'
import { metaWriter } from './meta.ts'
import { storedSchemas } from './schemas.ts'

const nameOf = (topic: Topic): string => `cut ${topic}`
const textOf = (topic: Topic, { until, last }: TopicCut): string => {
  const text = `${until} ${last.join(',')}`
  return `${text} ${crc32(`${topic} ${text}`)}`
}

/** Throws `data_unreadable` where it changed on the disk: nothing else says which rows are missing by right. */
export const cutOfTopic = (db: DatabaseSync, topic: Topic, count: number): TopicCut => {
  const row = db.prepare('SELECT value FROM meta WHERE name = ?').get(nameOf(topic)) as { value: unknown } | undefined
  if (row === undefined) return { until: 0, last: new Array<number>(count).fill(-1) }
  const [until = '', last = ''] = typeof row.value === 'string' ? row.value.split(' ') : []
  const cut = { until: Number(until), last: last.split(',').map(Number) }
  if (row.value === textOf(topic, cut) && cut.last.length === count) return cut
  throw new InstarError(
    'data_unreadable',
    `what was cut from ${topic} does not match its checksum: restore the log from a copy`,
    { topic },
  )
}

/** Of each partition the first offset that is held. */
export const startsOf = ({ last }: TopicCut): number[] => last.map((offset) => Math.max(0, offset))

/** The cuts that records of `upgrades` allow. One that does not match its checksum allows nothing. */
const cutsIn = (db: DatabaseSync): Cut[] => {
  const schemas = storedSchemas(db).filter(({ name }) => name.startsWith('LogCut.'))
  if (schemas.length === 0) return []
  const checksum = hasChecksums(db, 'upgrades') ? 'checksum' : 'NULL AS checksum'
  const rows = db.prepare(
    `SELECT offset, partition, timestamp, key, payload, ${checksum} FROM upgrades WHERE schema = ? ORDER BY offset`,
  )
  return schemas.flatMap(({ id, name, avro }) =>
    (
      rows.all(id) as {
        offset: number
        partition: number
        timestamp: number
        key: string
        payload: Uint8Array
        checksum: number | null
      }[]
    ).flatMap(({ checksum: stored, ...row }) => {
      const { offset, partition, timestamp, key, payload } = row
      if (!(payload instanceof Uint8Array)) return []
      const columns: Row = [offset, partition, timestamp, id, key, payload]
      if (stored !== null && stored !== checksumOf('upgrades', columns)) return []
      return cutOf({ topic: 'upgrades', schema: name, ...row, ...(isLater(name) ? { avro } : {}) }) ?? []
    }),
  )
}

/** Throws `log_truncated` if a topic lacks records at its start that no `LogCut` allows to delete: folds need all others. */
export const checkStarts = (db: DatabaseSync, counts: PartitionCounts): void => {
  const starts: Offsets = {}
  for (const topic of TOPICS) {
    const cut = cutOfTopic(db, topic, counts[topic])
    if (cut.until > 0) Object.assign(starts, { [topic]: startsOf(cut) })
    const { first } = db.prepare(`SELECT min(offset) AS first FROM "${topic}" WHERE offset >= ?`).get(cut.until) as {
      first: number | null
    }
    if (first !== null && first > cut.until) throw beginsAt(topic, cut.until, first)
    const kept = db.prepare(`SELECT offset FROM "${topic}" WHERE offset < ?`).all(cut.until) as { offset: number }[]
    const missing = cut.last.find((offset) => offset >= 0 && !kept.some((row) => row.offset === offset))
    if (missing !== undefined) throw recordsMissing(topic, missing, missing + 1)
  }
  if (Object.keys(starts).length === 0) return
  const above = notAllowed(starts, allowedStarts(cutsIn(db)))
  if (above) throw beginsAt(above.topic, 0, above.start)
}

const beginsAt = (topic: Topic, from: number, first: number): InstarError =>
  new InstarError(
    'log_truncated',
    `${topic} starts at offset ${first}: its ${from === 0 ? 'first' : `records from ${from} on, the next`} ${first - from} records are missing; restore the log from a copy`,
    { topic, first },
  )

/** The error for a missing record: that of the cut, where one has deleted it meanwhile. */
export const missingOrCut = (
  topic: Topic,
  cut: TopicCut,
  missing: InstarError,
  offset: number,
  partition = 0,
): InstarError => (offset < cut.until ? cutAway(topic, partition, startsOf(cut)[partition] ?? 0) : missing)

/** Deletes up to `until`, a multiple of `BLOCK`, in one transaction of the writing connection, in which none is open. */
export const cutTopic = (db: DatabaseSync, topic: Topic, count: number, until: number): void => {
  db.exec('BEGIN IMMEDIATE')
  const cut = cutOfTopic(db, topic, count)
  const last = [...cut.last]
  const partitionOfRow = rowPartition(db, topic, count)
  const rows = db.prepare(`SELECT offset, partition FROM "${topic}" WHERE offset >= ? AND offset < ?`)
  let next = cut.until
  for (const row of rows.iterate(cut.until, until) as Iterable<{ offset: number; partition: number }>) {
    if (row.offset !== next) throw recordsMissing(topic, next, row.offset)
    next = row.offset + 1
    const partition = partitionOfRow(row)
    if (isPartition(partition, count)) last[partition] = row.offset
  }
  if (next !== until) throw recordsMissing(topic, next, until)
  db.prepare(`DELETE FROM "${topic}" WHERE offset < ? AND offset NOT IN (SELECT value FROM json_each(?))`).run(
    until,
    JSON.stringify(last),
  )
  deleteBlocks(db, topic, cut.until / BLOCK, until / BLOCK)
  metaWriter(db)(nameOf(topic), textOf(topic, { until, last }))
  db.exec('COMMIT')
}
