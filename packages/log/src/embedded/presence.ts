/** Whether a log was made in a folder: then a `log.db` that is missing or empty is damage, not the start of a log. */
import { InstarError } from '@instar/events/errors'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'

export const logFile = (folder: string): string => join(folder, 'log.db')
/** Exists once `log.db` has its tables. */
const madeFile = (folder: string): string => join(folder, 'log.made')

const MADE = 'log.db was made in this folder. If it is missing or empty, records are lost: restore it from a copy.\n'

/** Whether the folder has a log, also if its file is lost. */
export const hasEmbeddedLog = (folder: string): boolean => existsSync(logFile(folder)) || existsSync(madeFile(folder))

/** Call it when `log.db` has its tables. A full disk does not refuse the log: the next opening writes the file. */
export const markMade = (folder: string): void => {
  if (existsSync(madeFile(folder))) return
  try {
    writeFileSync(madeFile(folder), MADE, { mode: 0o600 })
  } catch {
    // Its existence counts, not its content.
  }
}

/**
 * Throws `data_unreadable` if the file is missing or empty though a log was made here, or its write-ahead log has
 * records: SQLite would delete that one and begin an empty log.
 */
export const requireFile = (folder: string): void => {
  const file = logFile(folder)
  const size = sizeOf(file)
  if (size > 0) return
  const state = size < 0 ? 'is missing' : 'has 0 bytes'
  if (sizeOf(`${file}-wal`) > 0)
    throw lost(folder, `${state}, while its write-ahead log ${file}-wal has records: restore both from a copy`)
  if (existsSync(madeFile(folder))) throw lost(folder, state)
}

/** -1: there is no such file. */
const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? -1

const lost = (folder: string, state: string): InstarError =>
  unreadable(
    folder,
    `it ${state}, but a log was made in this folder; restore it from a copy, or begin a new log in another folder`,
  )

/** Throws `data_unreadable` if a log was made here and the file is an empty database, as a copy of `log.db` alone may be. */
export const requireTables = (db: DatabaseSync, folder: string): void => {
  if (!existsSync(madeFile(folder))) return
  if (!db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").get()) throw lost(folder, 'has no tables')
}

/** What SQLite says of a file whose bytes have changed. */
const DAMAGED = /malformed|not a database/

export const unreadable = (folder: string, cause: unknown): InstarError => {
  const why = cause instanceof Error ? cause.message : String(cause)
  const todo = DAMAGED.test(why) ? '; restore it from a copy' : ''
  return new InstarError(
    'data_unreadable',
    `${logFile(folder)} cannot be read as a log: ${why}${todo}`,
    { folder },
    { cause },
  )
}
