/** The thread that owns the writing connection and the folder's lock. A message is a transaction. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { lockFolder, openWriting } from './file.ts'
import { writeFrame, type FramedRecord } from './frame.ts'
import type { FromWriter, GroupCommit, ToWriter, WriterData } from './messages.ts'

/** SQLite result codes after which the file is as it was and the next try may succeed: busy, full. */
const TRANSIENT = new Set([5, 13])

const port = parentPort!
const say = (message: FromWriter): void => port.postMessage(message)

/** `reached`: the greatest timestamp of each partition. */
type Table = { insert: StatementSync; next: number; reached: number[] }

const openTables = (db: DatabaseSync, counts: WriterData['counts']): Table[] => TOPICS.map((topic) => {
  const last = db.prepare(`SELECT reached FROM "${topic}" WHERE partition = ? ORDER BY offset DESC LIMIT 1`)
  const { next } = db.prepare(`SELECT coalesce(max(offset) + 1, 0) AS next FROM "${topic}"`).get() as { next: number }
  return {
    insert: db.prepare(`INSERT INTO "${topic}" (offset, partition, timestamp, reached, schema, key, payload) VALUES (?, ?, ?, ?, ?, ?, ?)`),
    next,
    reached: Array.from({ length: counts[topic] }, (_, partition) => (last.get(partition) as { reached: number } | undefined)?.reached ?? 0),
  }
})

const run = (db: DatabaseSync, lock: DatabaseSync, counts: WriterData['counts']): void => {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const end = db.prepare('COMMIT')
  const setCommit = db.prepare('INSERT INTO commits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next')
  const frames: SharedArrayBuffer[] = []
  let tables = openTables(db, counts)
  let broken = false

  const insert = ({ topic, partition, timestamp, schema, key, payload }: FramedRecord): number => {
    const table = tables[topic]!
    const reached = table.reached[partition] = Math.max(table.reached[partition]!, timestamp)
    const offset = table.next++
    table.insert.run(offset, partition, timestamp, reached, schema, key, payload)
    return offset
  }

  const transaction = (frame: SharedArrayBuffer, records: number, commits: readonly GroupCommit[]): void => {
    try {
      if (broken) throw new Error('an earlier write failed; open the log again')
      begin.run()
      writeFrame(frame, records, insert)
      for (const { group, positions } of commits) {
        for (const { topic, partition, offset } of positions) setCommit.run(group, topic, partition, offset)
      }
      end.run()
      say({ kind: 'written' })
    } catch (cause) {
      const { errcode, message } = cause as Error & { errcode?: number }
      broken ||= errcode === undefined || !TRANSIENT.has(errcode & 0xff)
      if (db.isTransaction) db.exec('ROLLBACK')
      if (!broken) tables = openTables(db, counts)
      say({ kind: 'failed', message, broken })
    }
  }

  port.on('message', (message: ToWriter) => {
    if (message.kind === 'close') {
      db.close()
      lock.close()
      port.close()
      return
    }
    const { frame, shared, records, commits = [] } = message
    if (shared) frames[frame] = shared
    transaction(frames[frame]!, records, commits)
  })
}

const { folder, counts, schemas } = workerData as WriterData
try {
  const lock = lockFolder(folder)
  try {
    run(openWriting(folder, counts, schemas), lock, counts)
    say({ kind: 'ready' })
  } catch (cause) {
    lock.close()
    throw cause
  }
} catch (cause) {
  const error = cause instanceof InstarError ? cause : new InstarError('data_unreadable', (cause as Error).message, { folder })
  say({ kind: 'refused', code: error.code, message: error.message, details: { ...error.details } })
  port.close()
}
