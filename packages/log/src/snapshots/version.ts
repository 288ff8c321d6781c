/**
 * The version of the folds in a snapshot: a number with migrations (test/snapshots/versions.test.ts holds it to golden
 * snapshots), or a digest of the folds' sources, with which every change of a source makes the snapshot void.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FoldFile } from './file.ts'

/** Changes the entries of a file in place, in a transaction with the new version. If it throws, the log is read again. */
export type Migration = (file: FoldFile) => void

/**
 * `number`: counted up by each change of the stored state or of its fold. `migrations`: by the version from which they lead
 * to the next one; a snapshot of a version without a way to `number` is not used.
 */
export type StateVersion = { number: number; migrations: Readonly<Record<number, Migration>> }

/** As the file has it. */
export const versionText = (version: string | StateVersion): string =>
  typeof version === 'string' ? version : `v${version.number}`

/** The migrations from the version of a file to the present one, in order; null: there is no way. */
export const migrationsFrom = (found: string, version: string | StateVersion): Migration[] | null => {
  if (found === versionText(version)) return []
  const from = /^v([1-9]\d*)$/.exec(found)?.[1]
  if (typeof version === 'string' || from === undefined || Number(from) > version.number) return null
  const steps: Migration[] = []
  for (let at = Number(from); at < version.number; at += 1) {
    const step = version.migrations[at]
    if (!step) return null
    steps.push(step)
  }
  return steps
}

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
