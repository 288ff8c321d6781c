/**
 * The thread that owns the writing connection and the folder's lock. It never returns to an event loop: it blocks on
 * a shared word, which costs less than a message, and reads messages when the words count some.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { availableParallelism } from 'node:os'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { BlockReader, BlockWriter } from './blocks.ts'
import { WriterControl, firstOffsets } from './control.ts'
import { lockFolder, openWriting } from './file.ts'
import { FrameReader, type WriteRecord } from './frame.ts'
import type { FromWriter, GroupCommit, ToWriter, WriterData } from './messages.ts'

/** SQLite result codes after which the file is as it was and the next try may succeed: busy, full. */
const TRANSIENT = new Set([5, 13])
/** After which opening the file again does not help: corrupt, not a database. */
const HOPELESS = new Set([11, 26])
/** Consecutive failed transactions answered by opening the file again. */
const REOPENINGS = 2
/**
 * After a transaction this fast (a fast disk), the thread polls for the next one before it blocks: blocking and
 * waking would take 5 % of an append. It does not poll on a slow disk or a single core.
 */
const QUICK_MS = 0.25
const LOOK_MS = 0.03
/** Between two tries of opening it again. */
const PAUSE_MS = 250

const port = parentPort!
const say = (message: FromWriter): void => port.postMessage(message)

/** `reached`: the greatest timestamp of each partition. */
type TopicTable = { insert: StatementSync; next: number; reached: number[]; blocks: BlockWriter }

const openTables = (db: DatabaseSync, counts: WriterData['counts']): TopicTable[] =>
  TOPICS.map((topic) => {
    const last = db.prepare(`SELECT reached FROM "${topic}" WHERE offset = ?`)
    const ends = new BlockReader(db, topic, counts[topic]).ends()
    const { next } = db.prepare(`SELECT coalesce(max(offset) + 1, 0) AS next FROM "${topic}"`).get() as { next: number }
    return {
      insert: db.prepare(
        `INSERT INTO "${topic}" (offset, partition, timestamp, reached, schema, key, payload) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      ),
      next,
      reached: ends.map((end) => (last.get(end - 1) as { reached: number } | undefined)?.reached ?? 0),
      blocks: new BlockWriter(db, topic, next),
    }
  })

type WriterConnection = {
  db: DatabaseSync
  begin: StatementSync
  end: StatementSync
  setCommit: StatementSync
  tables: TopicTable[]
}

const connect = ({ folder, counts, schemas }: WriterData): WriterConnection => {
  const db = openWriting(folder, counts, schemas)
  return {
    db,
    begin: db.prepare('BEGIN IMMEDIATE'),
    end: db.prepare('COMMIT'),
    setCommit: db.prepare('INSERT INTO commits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next'),
    tables: openTables(db, counts),
  }
}

const pause = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** A new connection in place of one that failed. Throws what the second try throws. */
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
  const called = new WriterControl(data.control)
  const first = firstOffsets(data.control)
  let commits: GroupCommit[] = []
  let closing = false
  let lookMs = 0
  let connection = connect(data)
  /** Failures in a row that were answered by opening the file again. */
  let reopened = 0

  const readLetters = (): void => {
    while (called.takeLetter()) {
      const letter = receiveMessageOnPort(port)!.message as ToWriter
      if (letter.kind === 'close') closing = true
      else if (letter.kind === 'memory') frames[letter.frame] = new FrameReader(letter.shared)
      else if (letter.transaction === called.transaction) commits = letter.commits
    }
  }

  const insert: WriteRecord = (topic, partition, timestamp, schema, key, payload) => {
    const table = connection.tables[topic]!
    const reached = (table.reached[partition] = Math.max(table.reached[partition]!, timestamp))
    const offset = table.next++
    table.insert.run(offset, partition, timestamp, reached, schema, key, payload)
    table.blocks.add(offset, partition)
  }

  /** Inserts what is published while it is, and commits when that is all. */
  const transaction = (frame: FrameReader): void => {
    connection.begin.run()
    connection.tables.forEach(({ next }, topic) => {
      first[topic] = next
    })
    for (let at = 0, sealed = false; !sealed;) {
      const { times } = called
      sealed = called.sealed
      const { published } = called
      frame.each(at, published, insert)
      at = published
      if (!sealed && at === called.published) called.sleep(times, lookMs)
    }
    readLetters()
    for (const { group, positions } of commits) {
      for (const { topic, partition, offset } of positions) connection.setCommit.run(group, topic, partition, offset)
    }
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
      } catch (lasting) {
        return {
          kind: 'failed',
          message: lasting === cause ? message : `${message}; opening it again: ${(lasting as Error).message}`,
          broken: true,
        }
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

  say({ kind: 'ready' })
  while (!closing) {
    const { times } = called
    const frame = called.takeOpened()
    if (frame !== undefined) commits = []
    readLetters()
    if (frame !== undefined) {
      const began = performance.now()
      say(answer(frames[frame]!))
      lookMs = performance.now() - began < QUICK_MS && availableParallelism() > 1 ? LOOK_MS : 0
    } else if (!closing) called.sleep(times, lookMs)
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
  say({ kind: 'refused', code: error.code, message: error.message, details: { ...error.details } })
}
