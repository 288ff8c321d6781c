/** Tables in a temporary file, so that the memory of a command that folds a log does not grow with the log. */
import { InstarError, type Topic } from '@instar/events'
import { makeTemporaryFolder } from '@instar/events/temporary-folder'
import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import type { Checkpoint } from '../checkpoints/on-log.ts'
import type { EventLog, Offsets } from '../port.ts'
import type { FoldedRecord, Snapshot } from './snapshot.ts'
import { openSnapshots } from './store.ts'
import type { StateVersion } from './version.ts'

export type TemporaryTables = {
  snapshot: Snapshot
  /** Where the log is to be read from: {} its start, or behind the checkpoint. */
  from: Offsets
  /** From which the tables have their state; null: from none. */
  checkpoint: Checkpoint | null
  /** To be called after each record is folded; await its result before the next record. Throws `no_temporary_file`. */
  afterFold(record: FoldedRecord): Promise<void> | undefined
  /** Deletes the file. The tables are unusable afterwards. */
  close(): Promise<void>
}

/** A checkpoint of the state `name` (`audit.policy`) of this very version, the newest one that is accepted. `topics`: that it folds. */
export type FromCheckpoint = {
  /** Of the files of checkpoints. */
  folder: string
  name: string
  version: StateVersion
  topics: readonly Topic[]
  accepts(checkpoint: Checkpoint): boolean
}

/** Records after which changed entries are written to the file. */
const RECORDS = 2_000
/** What a service does instead, and a command that was to start from a checkpoint does not. */
const READ_FROM_START = /; the log is read from its start$/
/** Recently used entries in memory. */
const ROOM = 2_000

/**
 * `start`: the tables have the state of a checkpoint. Throws `no_temporary_file` if the file cannot be created, and
 * `no_checkpoint` with the reasons where none can be used.
 */
export const openTemporaryTables = async (log: EventLog, start?: FromCheckpoint): Promise<TemporaryTables> => {
  let folder: string
  try {
    folder = makeTemporaryFolder('audit')
  } catch (cause) {
    throw temporaryFileError((cause as Error).message, cause)
  }
  // A command that is stopped at once does not come to `close`, and the file holds what people said.
  const onExit = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', onExit)
  let fault: string | null = null
  const unused: string[] = []
  /** The last one that was tried. */
  let tried: Checkpoint | null = null
  const logLine = (line: string): void => {
    if (start && !/no snapshots? (is|are|could be)/.test(line)) unused.push(line.replace(READ_FROM_START, ''))
    else fault ??= line
  }
  const settings = { records: RECORDS, cacheWeight: ROOM, logLine }
  const snapshot = start
    ? openSnapshots(folder, {
        ...settings,
        checkpoints: start.folder,
        accepts(one) {
          if (one.event.version !== start.version.number || !start.accepts(one)) return false
          tried = one
          return true
        },
      }).of(start.name, start.version)
    : openSnapshots(folder, settings).of('audit', { number: 1, migrations: {} })
  const close = async (): Promise<void> => {
    try {
      await snapshot.close({ save: false })
    } finally {
      await rm(folder, { recursive: true, force: true })
      process.off('exit', onExit)
    }
  }
  const throwOnFault = (): void => {
    if (fault !== null) throw temporaryFileError(fault)
  }
  let from: Offsets
  try {
    from = await snapshot.open(log, start?.topics)
    throwOnFault()
    // A checkpoint has positions.
    if (Object.keys(from).length === 0) tried = null
    if (start && tried === null)
      throw new InstarError(
        'no_checkpoint',
        `no checkpoint of ${start.name} can be used${unused.length === 0 ? ': none of this build’s version is on the log' : `: ${unused.join('; ')}`}`,
        { name: start.name },
      )
  } catch (error) {
    await close()
    throw error
  }
  return { snapshot, from, checkpoint: tried, afterFold: (record) => snapshot.after(record)?.then(throwOnFault), close }
}

const temporaryFileError = (what: string, cause?: unknown): InstarError =>
  new InstarError('no_temporary_file', `the temporary file in ${tmpdir()} cannot be written: ${what}`, {}, { cause })
