/**
 * Rows of names in LevelDB: a folder beside the snapshot's file. Reads, writes and compactions run in threads of their own.
 * A folder that LevelDB finds damaged is removed.
 */
import { ClassicLevel } from 'classic-level'
import { mkdirSync, rmSync } from 'node:fs'
import type { NameRows } from './name-rows.ts'

/** No row of a name begins with it, since no generation has this number. */
const MARK = Buffer.from('ffffffffff', 'hex')
const EMPTY = Buffer.alloc(0)
const OPTIONS = { keyEncoding: 'buffer', valueEncoding: 'buffer' } as const
/** Bytes that wait in memory before LevelDB writes a table, and of its cache of blocks. */
const WRITE_BUFFER = 8 * 2 ** 20
const CACHE = 16 * 2 ** 20

type Level = ClassicLevel<Buffer, Buffer>

export const levelFolder = (snapshotPath: string): string => `${snapshotPath}.names`

const opened = async (folder: string): Promise<Level> => {
  const db: Level = new ClassicLevel(folder, { ...OPTIONS, writeBufferSize: WRITE_BUFFER, cacheSize: CACHE })
  await db.open()
  return db
}

/** A folder that cannot be removed stays, after a message. */
export const removeLevelRows = (snapshotPath: string, logLine: (line: string) => void): void => {
  const folder = levelFolder(snapshotPath)
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch (error) {
    logLine(`the names of answers in ${folder} were not removed: ${causeOf(error)}`)
  }
}

/** Null, with a message, if the folder cannot be used. */
export const openLevelRows = async (
  snapshotPath: string,
  logLine: (line: string) => void,
): Promise<NameRows | null> => {
  const folder = levelFolder(snapshotPath)
  let db: Level
  const named = (error: unknown): Error => new Error(`${folder}: ${causeOf(error)}`, { cause: error })
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    try {
      db = await opened(folder)
    } catch (error) {
      if (isLocked(error)) throw error
      logLine(`the table of names in ${folder} is not used (${causeOf(error)}) and is made anew`)
      rmSync(folder, { recursive: true, force: true })
      db = await opened(folder)
    }
  } catch (error) {
    logLine(`names of answers are kept in memory only: ${causeOf(error)}`)
    return null
  }
  return {
    async put(rows, mark) {
      const batch = db.batch()
      for (const row of rows) batch.put(Buffer.from(row.buffer, row.byteOffset, row.byteLength), EMPTY)
      batch.put(MARK, Buffer.from(mark))
      await batch.write({ sync: true })
    },
    lastUnder: (prefix, most) =>
      db
        .keys({ gte: Buffer.from(prefix), lt: after(prefix), reverse: true, limit: most, fillCache: true })
        .all()
        .catch((error: unknown) => Promise.reject(named(error))),
    async remove(from, to) {
      const [first, end] = [Buffer.from(from), Buffer.from(to)]
      try {
        await db.clear({ gte: first, lt: end })
        await db.compactRange(first, end)
      } catch (error) {
        throw named(error)
      }
    },
    async empty() {
      await db.close().catch(() => undefined)
      rmSync(folder, { recursive: true, force: true })
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      db = await opened(folder)
    },
    async mark() {
      try {
        return (await db.get(MARK))?.toString() ?? null
      } catch (error) {
        throw named(error)
      }
    },
    close: () => db.close(),
  }
}

/** The first key behind all that begin with the prefix. */
const after = (prefix: Uint8Array): Buffer => {
  const end = Buffer.from(prefix)
  for (let at = end.length - 1; at >= 0; at -= 1) {
    end[at] = (end[at]! + 1) & 0xff
    if (end[at] !== 0) break
  }
  return end
}

const causeOf = (error: unknown): string => {
  const { cause, message } = error as Error
  return cause instanceof Error ? cause.message : message
}
const isLocked = (error: unknown): boolean =>
  error instanceof Error && (error.cause as { code?: string } | undefined)?.code === 'LEVEL_LOCKED'
