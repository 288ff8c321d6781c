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
/** After which opening the file again does not help: corrupt, not a database. */
const HOPELESS = new Set([11, 26])
/** So many transactions in a row may fail and be answered by opening the file again. */
const REOPENINGS = 2
/** Between two tries of opening it again. */
const PAUSE_MS = 250

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

type Connection = { db: DatabaseSync; begin: StatementSync; end: StatementSync; setCommit: StatementSync; tables: Table[] }

const connect = ({ folder, counts, schemas }: WriterData): Connection => {
  const db = openWriting(folder, counts, schemas)
  return {
    db, begin: db.prepare('BEGIN IMMEDIATE'), end: db.prepare('COMMIT'),
    setCommit: db.prepare('INSERT INTO commits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next'),
    tables: openTables(db, counts),
  }
}

const pause = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** A new connection in place of one that failed. Throws what the second try throws. */
const reconnect = (data: WriterData, failed: Connection): Connection => {
  failed.db.close()
  try {
    return connect(data)
  } catch {
    pause(PAUSE_MS)
    return connect(data)
  }
}

const run = (data: WriterData, lock: DatabaseSync): void => {
  const frames: SharedArrayBuffer[] = []
  let connection = connect(data)
  /** Failures in a row that were answered by opening the file again. */
  let reopened = 0

  const insert = ({ topic, partition, timestamp, schema, key, payload }: FramedRecord): number => {
    const table = connection.tables[topic]!
    const reached = table.reached[partition] = Math.max(table.reached[partition]!, timestamp)
    const offset = table.next++
    table.insert.run(offset, partition, timestamp, reached, schema, key, payload)
    return offset
  }

  const transaction = (frame: SharedArrayBuffer, records: number, commits: readonly GroupCommit[]): void => {
    try {
      connection.begin.run()
      writeFrame(frame, records, insert)
      for (const { group, positions } of commits) {
        for (const { topic, partition, offset } of positions) connection.setCommit.run(group, topic, partition, offset)
      }
      connection.end.run()
      reopened = 0
      say({ kind: 'written' })
    } catch (cause) {
      const { message } = cause as Error
      try {
        recover(cause as Error & { errcode?: number })
        say({ kind: 'failed', message, broken: false })
      } catch (lasting) {
        say({ kind: 'failed', message: lasting === cause ? message : `${message}; opening it again: ${(lasting as Error).message}`, broken: true })
      }
    }
  }

  /** Makes the next transaction possible; throws when nothing here can. */
  const recover = (cause: Error & { errcode?: number }): void => {
    const code = cause.errcode === undefined ? undefined : cause.errcode & 0xff
    if (code !== undefined && TRANSIENT.has(code)) {
      const { db } = connection
      if (db.isTransaction) db.exec('ROLLBACK')
      connection.tables = openTables(db, data.counts)
      return
    }
    if (code === undefined || HOPELESS.has(code) || reopened >= REOPENINGS) throw cause
    reopened += 1
    connection = reconnect(data, connection)
  }

  port.on('message', (message: ToWriter) => {
    if (message.kind === 'close') {
      if (connection.db.isOpen) connection.db.close()
      lock.close()
      port.close()
      return
    }
    const { frame, shared, records, commits = [] } = message
    if (shared) frames[frame] = shared
    transaction(frames[frame]!, records, commits)
  })
}

const data = workerData as WriterData
const { folder } = data
try {
  const lock = lockFolder(folder)
  try {
    run(data, lock)
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
