/** Permissions of files with conversations. */
import { chmodSync } from 'node:fs'

/** Sets the mode. A path that another user owns keeps its permissions. */
export const restrictMode = (path: string, mode: number): void => {
  try {
    chmodSync(path, mode)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPERM') throw cause
  }
}
