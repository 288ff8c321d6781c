/** What is, or would be, committed: paths relative to the repository, with forward slashes. */
import { readdirSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** Built, fetched or recorded; the same folders as in .gitignore. */
const LEFT_OUT = new Set(['node_modules', '.git', '.instar', '.cache', 'coverage'])

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (LEFT_OUT.has(entry.name)) return []
    const path = join(folder, entry.name)
    return entry.isDirectory() ? walk(path) : entry.isFile() ? [relative(ROOT, path).split(sep).join('/')] : []
  })
}

export const committable = (): string[] => walk(ROOT).toSorted()
