/** Permissions of files that hold conversations. */
import { chmodSync } from 'node:fs'

/** A folder or file that another user owns and lets us write to keeps its permissions. */
export const ownOnly = (path: string, mode: number): void => {
  try {
    chmodSync(path, mode)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPERM') throw cause
  }
}
