/** Lists the files of the repository. */
import { readdirSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** Folders of built, downloaded or recorded files, as in .gitignore. */
const EXCLUDED = new Set(['node_modules', '.git', '.instar', '.cache', 'coverage'])

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (EXCLUDED.has(entry.name)) return []
    const path = join(folder, entry.name)
    return entry.isDirectory() ? walk(path) : entry.isFile() ? [relative(ROOT, path).split(sep).join('/')] : []
  })
}

/** Files that are, or would be, committed: paths relative to the repository, with forward slashes, sorted. */
export const sourceFiles = (): string[] => walk(ROOT).toSorted()
