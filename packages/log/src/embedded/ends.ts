/**
 * The end of each topic in the table `meta`, written in the transaction of its records: rows that were cut off at the end are
 * noticed when the file is opened. A build that does not write it leaves a lower end, which says nothing of later rows.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { metaWriter } from './meta.ts'

const nameOf = (topic: Topic): string => `end ${topic}`
const textOf = (topic: Topic, end: number): string => `${end} ${crc32(`${topic} ${end}`)}`

/** Writes the offset after the last record of a topic. */
export const endWriter = (db: DatabaseSync): ((topic: Topic, end: number) => void) => {
  const write = metaWriter(db)
  return (topic, end) => write(nameOf(topic), textOf(topic, end))
}

/** Throws `log_truncated` for a topic that ends before its recorded end. An end that changed on the disk is not used. */
export const checkEnds = (db: DatabaseSync): void => {
  for (const topic of TOPICS) {
    // In one statement, since another process may be writing.
    const { last, stored } = db
      .prepare(`SELECT (SELECT max(offset) FROM "${topic}") AS last, (SELECT value FROM meta WHERE name = ?) AS stored`)
      .get(nameOf(topic)) as { last: number | null; stored: unknown }
    const next = last === null ? 0 : last + 1
    const end = typeof stored === 'string' ? Number(stored.split(' ')[0]) : NaN
    if (stored !== textOf(topic, end) || next >= end) continue
    throw new InstarError(
      'log_truncated',
      `${topic} ends at offset ${next}: its last ${end - next} records are missing; restore the log from a copy`,
      { topic, next, end },
    )
  }
}
