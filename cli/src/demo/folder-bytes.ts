import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Bytes of the files in the folder; 0 if it does not exist. */
export const folderBytes = (folder: string): number =>
  existsSync(folder) ? readdirSync(folder).reduce((total, name) => total + statSync(join(folder, name)).size, 0) : 0
