/**
 * Temporary folders of a process that ends by a kill, too: the name has the process's id, and the next process that makes one
 * of the same kind removes those of processes that no longer run.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A new private folder `instar-<kind>-<process id>-…`; its maker removes it. `kind`: lower-case letters. */
export const makeTemporaryFolder = (kind: string): string => {
  removeLeft(kind)
  return mkdtempSync(join(tmpdir(), `instar-${kind}-${process.pid}-`))
}

/** Of this user alone: another's folder could be a link, or is not to be removed. */
const removeLeft = (kind: string): void => {
  const form = new RegExp(`^instar-${kind}-(\\d+)-`)
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(form.exec(name)?.[1] ?? Number.NaN)
    if (!Number.isSafeInteger(pid) || isRunning(pid)) continue
    const path = join(tmpdir(), name)
    try {
      const found = lstatSync(path)
      if (found.isDirectory() && found.uid === (process.getuid?.() ?? found.uid)) rmSync(path, { recursive: true })
    } catch {
      // Another process removed it, or may alone; a folder that stays costs room.
    }
  }
}

/** Whether a process of this machine has the id. */
export const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
