/** The version of the folds in a snapshot: a digest of their sources, so that it need not be maintained by hand. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The sources of the shared folds, of the records, and of the snapshot code. */
const SHARED = [
  ...inFolder(new URL(import.meta.resolve('@instar/events/folds/turns'))),
  new URL(import.meta.resolve('@instar/events/ids')),
  new URL(import.meta.resolve('@instar/events/records')),
  ...inFolder(new URL(import.meta.url)),
]

function inFolder(file: URL): URL[] {
  const folder = new URL('.', file)
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .sort()
    .map((name) => new URL(name, folder))
}

/** The source of a module. A built package contains the sources (tools/pack), so that its digest is the same. */
const sourceOf = (module: URL): string => readFileSync(fileURLToPath(module).replace(/\.js$/, '.ts'), 'utf8')

/** The digest of the shared sources and a service's own, ignoring comments and white space. */
export const foldVersion = (own: readonly URL[], read: (source: URL) => string = sourceOf): string => {
  const hash = createHash('sha256')
  for (const source of [...SHARED, ...own])
    hash.update(
      `${read(source)
        .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
        .replace(/\s+/g, ' ')
        .trim()}\n`,
    )
  return hash.digest('hex').slice(0, 16)
}
