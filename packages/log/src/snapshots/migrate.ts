/** Runs migrations of a stored state. */
import type { FoldFile } from './file.ts'
import type { Migration } from './version.ts'

/** All at once with the new version, so that a process that is killed leaves the old state or the new one. */
export const migrate = (file: FoldFile, from: string, to: string, migrations: readonly Migration[]): void => {
  file.begin()
  try {
    for (const one of migrations) one(file)
    file.setMeta('version', to)
    file.commit()
  } catch (cause) {
    file.rollback()
    throw new Error(`its state cannot be migrated from ${from} to ${to}: ${(cause as Error).message}`, { cause })
  }
}
