/**
 * The thread that owns the writing connection and the folder's lock. It takes every message that waits
 * into one transaction, so that all callers of one moment share one flush.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { lockFolder, openWriting } from './file.ts'
import type { AppendMessage, FromWriter, ToWriter, WriteMessage, WriterData } from './messages.ts'

/** A transaction takes messages until it holds this much. */
const TRANSACTION_BYTES = 8 << 20
const TRANSACTION_RECORDS = 4096

/** SQLite result codes after which the file is as it was and the next try may succeed: busy, full. */
const TRANSIENT = new Set([5, 13])

const port = parentPort!
const say = (message: FromWriter, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)

type Partition = { reached: number }
type Table = { insert: StatementSync; next: number; partitions: Partition[] }

const openTables = (db: DatabaseSync, counts: WriterData['counts']): Table[] => TOPICS.map((topic) => {
  const last = db.prepare(`SELECT reached FROM "${topic}" WHERE partition = ? ORDER BY offset DESC LIMIT 1`)
  const { next } = db.prepare(`SELECT coalesce(max(offset) + 1, 0) AS next FROM "${topic}"`).get() as { next: number }
  return {
    insert: db.prepare(`INSERT INTO "${topic}" (offset, partition, timestamp, reached, schema, key, payload) VALUES (?, ?, ?, ?, ?, ?, ?)`),
    next,
    partitions: Array.from({ length: counts[topic] }, (_, partition) => ({ reached: (last.get(partition) as { reached: number } | undefined)?.reached ?? 0 })),
  }
})

const run = (db: DatabaseSync, lock: DatabaseSync, tables: Table[]): void => {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const end = db.prepare('COMMIT')
  const setCommit = db.prepare('INSERT INTO commits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next')
  let broken = false

  const append = (message: AppendMessage): Float64Array => {
    const offsets = new Float64Array(message.keys.length)
    let at = 0
    for (let i = 0; i < offsets.length; i++) {
      const table = tables[message.topics[i]!]!
      const partition = message.partitions[i]!
      const timestamp = message.timestamps[i]!
      const state = table.partitions[partition]!
      state.reached = Math.max(state.reached, timestamp)
      const payload = message.bytes.subarray(at, at += message.sizes[i]!)
      offsets[i] = table.next++
      table.insert.run(offsets[i]!, partition, timestamp, state.reached, message.schemas[i]!, message.keys[i]!, payload)
    }
    return offsets
  }

  const write = (message: WriteMessage): { id: number; offsets?: Float64Array } => {
    if (message.kind === 'append') return { id: message.id, offsets: append(message) }
    for (const { topic, partition, offset } of message.positions) setCommit.run(message.group, topic, partition, offset)
    return { id: message.id }
  }

  const transaction = (messages: WriteMessage[]): void => {
    const before = tables.map(({ next, partitions }) => ({ next, reached: partitions.map((partition) => partition.reached) }))
    try {
      if (broken) throw new Error('an earlier write failed; open the log again')
      begin.run()
      const results = messages.map(write)
      end.run()
      const bytes = messages.flatMap((message) => (message.kind === 'append' ? [message.bytes] : []))
      say({ kind: 'written', results, bytes }, bytes.map(({ buffer }) => buffer))
    } catch (cause) {
      const { errcode, message } = cause as Error & { errcode?: number }
      broken ||= errcode === undefined || !TRANSIENT.has(errcode & 0xff)
      if (db.isTransaction) db.exec('ROLLBACK')
      tables.forEach((table, i) => {
        table.next = before[i]!.next
        table.partitions.forEach((partition, p) => { partition.reached = before[i]!.reached[p]! })
      })
      say({ kind: 'failed', ids: messages.map(({ id }) => id), message, broken })
    }
  }

  port.on('message', (first: ToWriter) => {
    let next: ToWriter | undefined = first
    while (next) {
      const messages: WriteMessage[] = []
      let bytes = 0
      let records = 0
      while (next && next.kind !== 'close' && bytes < TRANSACTION_BYTES && records < TRANSACTION_RECORDS) {
        messages.push(next)
        if (next.kind === 'append') {
          bytes += next.payloadBytes
          records += next.keys.length
        }
        next = receiveMessageOnPort(port)?.message as ToWriter | undefined
      }
      if (messages.length > 0) transaction(messages)
      if (next?.kind === 'close') {
        db.close()
        lock.close()
        port.close()
        return
      }
    }
  })
}

const { folder, counts, schemas } = workerData as WriterData
try {
  const lock = lockFolder(folder)
  try {
    const db = openWriting(folder, counts, schemas)
    run(db, lock, openTables(db, counts))
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
