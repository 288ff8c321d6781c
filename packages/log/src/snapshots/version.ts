/** The version of a snapshot: a digest of the sources, because a number maintained by hand would be forgotten. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The shared folds, what they are made of, and how they are stored. */
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

/** Of a built module, whose source lies beside it (tools/pack): one digest, however the code was installed. */
const sourceOf = (module: URL): string => readFileSync(fileURLToPath(module).replace(/\.js$/, '.ts'), 'utf8')

/** Digest of the shared folds' sources and of a service's own, comments and blanks aside. */
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
