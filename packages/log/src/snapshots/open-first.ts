/** Opens a service's file in the folder of snapshots. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { linkNew } from '../checkpoints/files.ts'
import { restrictMode } from '../permissions.ts'
import { isLocked, removeSnapshot, SnapshotFile, type FoldFile } from './file.ts'
import type { SnapshotSettings } from './settings.ts'

/** Maximum number of files of one service in a folder, one for each process. */
const MAX_FILES = 32

/**
 * Opens the first file of this name that no process has locked; null, with a message, if there is none. `initial`: gets the
 * name of the first that does not exist.
 */
export const openFirst = (
  { folder, logLine, file }: SnapshotSettings,
  name: string,
  initial?: string,
): FoldFile | null => {
  if (file) return file(name)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    // Folds contain texts of feedback.
    restrictMode(folder, 0o700)
    for (let i = 1; i <= MAX_FILES; i += 1) {
      const path = join(folder, i === 1 ? `${name}.db` : `${name}.${i}.db`)
      try {
        if (initial !== undefined) linkNew(initial, path)
        return new SnapshotFile(path)
      } catch (error) {
        if (isLocked(error)) continue
        logLine(`${name}: the snapshot is not used (${(error as Error).message}); the log is read from its start`)
        removeSnapshot(path)
        return new SnapshotFile(path)
      }
    }
    logLine(`${name}: no snapshots are kept: ${MAX_FILES} processes use ${folder}`)
  } catch (error) {
    logLine(`${name}: no snapshots are kept in ${folder}: ${(error as Error).message}`)
  }
  return null
}
