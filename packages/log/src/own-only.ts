/** Who may read what people said. */
import { chmodSync } from 'node:fs'

/** A folder or file of somebody else, who lets us write to it, keeps the permissions that he gave it. */
export const ownOnly = (path: string, mode: number): void => {
  try {
    chmodSync(path, mode)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPERM') throw cause
  }
}
