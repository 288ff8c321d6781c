/** Tables in a temporary file, so that the memory of a command that folds a log does not grow with the log. */
import { InstarError } from '@instar/events'
import { makeTemporaryFolder } from '@instar/events/temporary-folder'
import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import type { EventLog } from '../port.ts'
import type { FoldedRecord, Snapshot } from './snapshot.ts'
import { openSnapshots } from './store.ts'

export type TemporaryTables = {
  snapshot: Snapshot
  /** To be called after each record is folded; await its result before the next record. Throws `no_temporary_file`. */
  afterFold(record: FoldedRecord): Promise<void> | undefined
  /** Deletes the file. The tables are unusable afterwards. */
  close(): Promise<void>
}

/** Records after which changed entries are written to the file. */
const RECORDS = 2_000
/** Recently used entries in memory. */
const ROOM = 2_000

/** Throws `no_temporary_file` if the file cannot be created. */
export const openTemporaryTables = async (log: EventLog): Promise<TemporaryTables> => {
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
  const logLine = (line: string): void => {
    fault ??= line
  }
  const snapshot = openSnapshots(folder, { records: RECORDS, cacheWeight: ROOM, logLine }).of('audit', {
    number: 1,
    migrations: {},
  })
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
  try {
    await snapshot.open(log)
    throwOnFault()
  } catch (error) {
    await close()
    throw error
  }
  return { snapshot, afterFold: (record) => snapshot.after(record)?.then(throwOnFault), close }
}

const temporaryFileError = (what: string, cause?: unknown): InstarError =>
  new InstarError('no_temporary_file', `the temporary file in ${tmpdir()} cannot be written: ${what}`, {}, { cause })
