/** The place of an archive, as named on the command line: a folder. */
import { openFolderStore, type ArchiveStore } from '@instar/log'
import { resolve } from 'node:path'
import { UsageError } from './command.ts'

/** `writing`: the folder is created and locked. Throws `UsageError`, `data_in_use`, `archive_unavailable`. */
export const openArchiveStore = (place: string, { cwd }: { cwd: string }, writing: boolean): ArchiveStore => {
  if (place === '') throw new UsageError('the place of the archive is empty')
  return openFolderStore(resolve(cwd, place), writing)
}
