/**
 * The writing thread, with the writing connection and the lock of the folder. It never returns to its event loop: it
 * blocks on a shared word, since waking it takes less time than a message, and reads messages when a shared word counts
 * new ones.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { availableParallelism } from 'node:os'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { BlockReader, BlockWriter } from './blocks.ts'
import { checksumOf, reachedOf } from './checksum.ts'
import { WriterControl, firstOffsets } from './control.ts'
import { cutOfTopic, cutTopic } from './cut.ts'
import { endWriter } from './ends.ts'
import { lockFolder, openWriting } from './file.ts'
import { FrameReader, type WriteRecord } from './frame.ts'
import type { FromWriter, GroupCommit, ToWriter, TopicCutting, WriterData } from './messages.ts'

/** SQLite result codes after which the file is unchanged and a retry may succeed: SQLITE_BUSY, SQLITE_FULL. */
const TRANSIENT = new Set([5, 13])
/** SQLite result codes after which reopening the file cannot help: SQLITE_CORRUPT, SQLITE_NOTADB. */
const UNRECOVERABLE = new Set([11, 26])
/** Maximum number of consecutive failed transactions after which the file is reopened. */
const MAX_REOPENINGS = 2
/**
 * After a transaction of less than `FAST_MS` (a fast disk) the thread polls for `POLL_MS` before it blocks, since
 * blocking and waking would take 5 % of an append. It does not poll on a slow disk or a single core.
 */
const FAST_MS = 0.25
const POLL_MS = 0.03
/** Milliseconds between two attempts to reopen the file. */
const PAUSE_MS = 250

const port = parentPort!
const send = (message: FromWriter): void => port.postMessage(message)

/** `reached`: the greatest timestamp of each partition. */
type TopicTable = { insert: StatementSync; next: number; reached: number[]; blocks: BlockWriter }

const openTables = (db: DatabaseSync, counts: WriterData['counts']): TopicTable[] =>
  TOPICS.map((topic) => {
    const last = db.prepare(`SELECT reached, timestamp FROM "${topic}" WHERE offset = ?`)
    const ends = new BlockReader(db, topic, counts[topic], cutOfTopic(db, topic, counts[topic])).ends()
    const { next } = db.prepare(`SELECT coalesce(max(offset) + 1, 0) AS next FROM "${topic}"`).get() as { next: number }
    return {
      insert: db.prepare(
        `INSERT INTO "${topic}" (offset, partition, timestamp, reached, schema, key, payload, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      next,
      reached: ends.map((end) => reachedOf(Object.values(last.get(end - 1) ?? {}))),
      blocks: new BlockWriter(db, topic, counts[topic], next),
    }
  })

type WriterConnection = {
  db: DatabaseSync
  begin: StatementSync
  end: StatementSync
  setCommit: StatementSync
  setEnd: ReturnType<typeof endWriter>
  tables: TopicTable[]
}

const connect = ({ folder, counts, schemas }: WriterData): WriterConnection => {
  const db = openWriting(folder, counts, schemas)
  return {
    db,
    begin: db.prepare('BEGIN IMMEDIATE'),
    end: db.prepare('COMMIT'),
    setCommit: db.prepare('INSERT INTO commits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next'),
    setEnd: endWriter(db),
    tables: openTables(db, counts),
  }
}

const pause = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Replaces a failed connection. Throws the error of the second attempt. */
const reconnect = (data: WriterData, failed: WriterConnection): WriterConnection => {
  failed.db.close()
  try {
    return connect(data)
  } catch {
    pause(PAUSE_MS)
    return connect(data)
  }
}

const run = (data: WriterData): void => {
  const frames: FrameReader[] = []
  const control = new WriterControl(data.control)
  const first = firstOffsets(data.control)
  let commits: GroupCommit[] = []
  const cuts: TopicCutting[] = []
  let closing = false
  let pollMs = 0
  let connection = connect(data)
  /** Consecutive failures after which the file was reopened. */
  let reopened = 0

  const readMessages = (): void => {
    while (control.takeMessage()) {
      const message = receiveMessageOnPort(port)!.message as ToWriter
      if (message.kind === 'close') closing = true
      else if (message.kind === 'memory') frames[message.frame] = new FrameReader(message.shared)
      else if (message.kind === 'cut') cuts.push(message)
      else if (message.transaction === control.transaction) commits = message.commits
    }
  }

  const insert: WriteRecord = (topic, partition, timestamp, schema, key, payload) => {
    const table = connection.tables[topic]!
    const reached = (table.reached[partition] = Math.max(table.reached[partition]!, timestamp))
    const offset = table.next++
    const checksum = checksumOf(TOPICS[topic]!, [offset, partition, timestamp, schema, key, payload])
    table.insert.run(offset, partition, timestamp, reached, schema, key, payload, checksum)
    table.blocks.add(offset, partition)
  }

  /** Inserts records as they are published, and commits when the transaction is sealed. */
  const transaction = (frame: FrameReader): void => {
    connection.begin.run()
    connection.tables.forEach(({ next }, topic) => {
      first[topic] = next
    })
    for (let at = 0, sealed = false; !sealed;) {
      const { wakeups } = control
      sealed = control.sealed
      const { published } = control
      frame.each(at, published, insert)
      at = published
      if (!sealed && at === control.published) control.sleep(wakeups, pollMs)
    }
    connection.tables.forEach(({ next }, topic) => {
      if (next !== first[topic]) connection.setEnd(TOPICS[topic]!, next)
    })
    readMessages()
    for (const { group, positions } of commits) {
      for (const { topic, partition, offset } of positions) connection.setCommit.run(group, topic, partition, offset)
    }
    // COMMIT. With `synchronous = FULL` (file.ts) the records are durable once it returns, and may be acknowledged.
    connection.end.run()
  }

  const answer = (frame: FrameReader): FromWriter => {
    try {
      transaction(frame)
      reopened = 0
      return 'written'
    } catch (cause) {
      const { message } = cause as Error
      try {
        recover(cause as Error & { errcode?: number })
        return { kind: 'failed', message, broken: false }
      } catch (unrecovered) {
        return {
          kind: 'failed',
          message:
            unrecovered === cause
              ? message
              : `${message}; reopening the file failed: ${(unrecovered as Error).message}`,
          broken: true,
        }
      }
    }
  }

  const cut = ({ topic, until }: TopicCutting): FromWriter => {
    const { db } = connection
    try {
      cutTopic(db, topic, data.counts[topic], until)
      return { kind: 'cut', error: null }
    } catch (cause) {
      if (db.isTransaction) db.exec('ROLLBACK')
      return { kind: 'cut', error: (cause as Error).message }
    }
  }

  /** Prepares for the next transaction. Throws if no further transaction can succeed. */
  const recover = (cause: Error & { errcode?: number }): void => {
    const code = cause.errcode === undefined ? undefined : cause.errcode & 0xff
    if (code !== undefined && TRANSIENT.has(code)) {
      const { db } = connection
      if (db.isTransaction) db.exec('ROLLBACK')
      connection.tables = openTables(db, data.counts)
      return
    }
    if (code === undefined || UNRECOVERABLE.has(code) || reopened >= MAX_REOPENINGS) throw cause
    reopened += 1
    connection = reconnect(data, connection)
  }

  send({ kind: 'ready' })
  while (!closing) {
    const { wakeups } = control
    const frame = control.takeOpened()
    if (frame !== undefined) commits = []
    readMessages()
    if (frame !== undefined) {
      const began = performance.now()
      send(answer(frames[frame]!))
      pollMs = performance.now() - began < FAST_MS && availableParallelism() > 1 ? POLL_MS : 0
    }
    if (cuts.length > 0) send(cut(cuts.shift()!))
    else if (frame === undefined && !closing) control.sleep(wakeups, pollMs)
  }
  if (connection.db.isOpen) connection.db.close()
}

const data = workerData as WriterData
const { folder } = data
try {
  const lock = lockFolder(folder)
  try {
    run(data)
  } finally {
    lock.close()
  }
} catch (cause) {
  const error =
    cause instanceof InstarError ? cause : new InstarError('data_unreadable', (cause as Error).message, { folder })
  send({ kind: 'refused', code: error.code, message: error.message, details: { ...error.details } })
}
