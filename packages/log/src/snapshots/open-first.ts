/**
 * Opens a service's file in the folder of snapshots. A file of another build, whose state this one cannot take over, is left as
 * it is: which file is whose stands in the files, and their names only differ.
 */
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { linkNew } from '../checkpoints/files.ts'
import { restrictMode } from '../permissions.ts'
import { withChecksum } from './file-tables.ts'
import { isLocked, removeSnapshot, SnapshotFile, type FoldFile } from './file.ts'
import { lastUsed } from './other-builds.ts'
import type { SnapshotSettings } from './settings.ts'
import { inSlices } from './slices.ts'
import { migrationsFrom, type StateVersion } from './version.ts'

/** Maximum number of files of one service in a folder, one for each process. */
const MAX_FILES = 32

/** A file whose service is not known, an empty one, and one that is replaced, are taken after those with a state. */
const AFTER = { unnamed: 1e5, empty: 1e6, damaged: 1e7 } as const

/**
 * `others`: paths of the files that builds with another state wrote. `problem`: why the file could not be read, in whose place
 * `file` is empty; '' if it could.
 */
export type OpenedFile = { file: FoldFile | null; others: readonly string[]; problem: string }

/**
 * Opens the file that this version, or else one that can be migrated to it, used last, of those that no process has locked; a new
 * one if there is none; null, with a message, if none can be made.
 */
export const openFirst = async (
  settings: SnapshotSettings,
  name: string,
  version: StateVersion,
): Promise<OpenedFile> => {
  const { folder } = settings
  if (settings.file) return { file: settings.file(name), others: [], problem: '' }
  const others: string[] = []
  const ours: { path: string; steps: number }[] = []
  for (const path of filesOf(folder, name)) {
    const written = writtenBy(path)
    if (written === 'locked' || !isOf(name, path, written)) continue
    const steps = stepsFrom(written, version)
    if (steps === null) others.push(path)
    else ours.push({ path, steps: steps + (written.name === null ? AFTER.unnamed : 0) })
  }
  const order = ours
    .map((one) => ({ ...one, used: lastUsed(one.path) }))
    .sort((a, b) => a.steps - b.steps || b.used - a.used)
  for (const { path, steps } of order) {
    const found = await opened(path, name)
    // A file of an earlier version beside it is that of a build that was put back for a time.
    const earlier = order.filter((one) => one.steps > steps && one.steps < AFTER.unnamed)
    if (found) return { ...found, others: [...others, ...earlier.map((one) => one.path)] }
  }
  return { file: await newFile(settings, name, version, others), others, problem: '' }
}

/** Makes the first file of this name that does not exist; beside those of other builds its name has the version. `initial`: gets its name. */
export const newFile = async (
  { folder, logLine, file }: SnapshotSettings,
  name: string,
  { number }: StateVersion,
  others: readonly string[],
  initial?: string,
): Promise<FoldFile | null> => {
  if (file) return file(name)
  const base = others.length > 0 ? `${name}.v${number}` : name
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    // Folds contain texts of feedback.
    restrictMode(folder, 0o700)
    for (let i = 1; i <= MAX_FILES; i += 1) {
      const path = join(folder, i === 1 ? `${base}.db` : `${base}.${i}.db`)
      if (existsSync(path)) continue
      if (initial !== undefined) linkNew(initial, path)
      const made = await opened(path, name)
      if (made) return made.file
    }
    logLine(`${name}: no snapshots are kept: ${MAX_FILES} processes use ${folder}`)
  } catch (error) {
    logLine(`${name}: no snapshots are kept in ${folder}: ${(error as Error).message}`)
  }
  return null
}

/** Null if another process has it. One that cannot be read is replaced. */
const opened = async (path: string, name: string): Promise<Pick<OpenedFile, 'file' | 'problem'> | null> => {
  try {
    return { file: withName(await verified(path), name), problem: '' }
  } catch (error) {
    if (isLocked(error)) return null
    removeSnapshot(path)
    return { file: withName(new SnapshotFile(path), name), problem: (error as Error).message }
  }
}

/** With other work between the steps of reading its keys. */
const verified = async (path: string): Promise<SnapshotFile> => {
  const file = new SnapshotFile(path, { verified: false })
  try {
    await inSlices(file.verifying(), () => undefined)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

const withName = (file: FoldFile, name: string): FoldFile => {
  file.setMeta('name', name)
  return file
}

/** `name`, `version`: null where the file has none; `damaged`: they cannot be told. */
type Written = { name: string | null; version: string | null; damaged?: true }

const stepsFrom = ({ version: written, damaged }: Written, version: StateVersion): number | null => {
  if (damaged) return AFTER.damaged
  return written === null ? AFTER.empty : (migrationsFrom(written, version)?.length ?? null)
}

/**
 * Whether a file is of this service. Names of policies may end with a number: `trainer.qwen2.5.db` may be the first file of the
 * policy `qwen2.5`, or a further one of `qwen2`. One of a build that wrote no name is taken for a further one only with all before.
 */
const isOf = (name: string, path: string, written: Written): boolean => {
  if (written.name !== null) return written.name === name
  const rest = basename(path).slice(name.length)
  if (rest === '.db') return true
  const number = Number(/^\.(\d+)\.db$/.exec(rest)?.[1] ?? Infinity)
  const before = (n: number): string => join(dirname(path), n === 1 ? `${name}.db` : `${name}.${n}.db`)
  return (
    number <= MAX_FILES && Array.from({ length: number - 1 }, (_, n) => before(n + 1)).every((one) => existsSync(one))
  )
}

/** The paths of the files of a service's state, of any version and process. */
const filesOf = (folder: string, name: string): string[] => {
  const rest = /^(\.v\d+)?(\.\d+)?\.db$/
  try {
    return readdirSync(folder)
      .filter((file) => file.startsWith(name) && rest.test(file.slice(name.length)))
      .sort()
      .map((file) => join(folder, file))
  } catch {
    return []
  }
}

/** Of a file, which stays as it is. */
const writtenBy = (path: string): Written | 'locked' => {
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 0 })
    const meta = db.prepare('SELECT value FROM meta WHERE name = ?')
    const valueOf = (name: string): string | null => {
      const row = meta.get(name) as { value: string } | undefined
      const value = row?.value.slice(0, Math.max(0, row.value.lastIndexOf(' '))) ?? null
      if (row && row.value !== withChecksum(name, value!)) throw new Error('damaged')
      return value
    }
    return { name: valueOf('name'), version: valueOf('version') }
  } catch (error) {
    return isLocked(error) ? 'locked' : { name: null, version: null, damaged: true }
  } finally {
    db?.close()
  }
}
