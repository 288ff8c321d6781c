/**
 * The files of checkpoints: a state's SQLite file, compressed with zstd, under a name with its SHA-256. They are a cache of
 * the log, like snapshots: one that is missing or damaged costs time.
 */
import type { StateCheckpointed } from '@instar/events'
import { isRunning } from '@instar/events/temporary-folder'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, linkSync } from 'node:fs'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { restrictMode } from '../permissions.ts'
import { syncFolder } from '../sync-folder.ts'

const SUFFIX = '.state.zst'

export type StateFile = Pick<StateCheckpointed, 'name' | 'file' | 'bytes'>

export const stateFile = (folder: string, { name, file }: Pick<StateFile, 'name' | 'file'>): string =>
  join(folder, `${name}.${file}${SUFFIX}`)

/** Compresses a state's file into the folder, which is created; durable when it resolves. */
export const packState = async (
  source: string,
  folder: string,
  name: string,
  signal?: AbortSignal,
): Promise<StateFile> => {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // States contain texts of feedback.
  restrictMode(folder, 0o700)
  const part = join(folder, `${name}.${process.pid}.part`)
  const hash = createHash('sha256')
  let bytes = 0
  const measure = new Transform({
    transform(chunk: Buffer, _, done) {
      hash.update(chunk)
      bytes += chunk.length
      done(null, chunk)
    },
  })
  try {
    await pipeline(
      createReadStream(source),
      createZstdCompress(),
      measure,
      createWriteStream(part, { mode: 0o600, flush: true }),
      signal ? { signal } : {},
    )
    const file = { name, file: hash.digest('hex'), bytes }
    await rename(part, stateFile(folder, file))
    await syncFolder(folder)
    return file
  } finally {
    await rm(part, { force: true })
  }
}

/** Why the file of a checkpoint cannot be used; null: it can. Throws the reason of `signal` if it is aborted. */
export const stateFault = async (folder: string, state: StateFile, signal?: AbortSignal): Promise<string | null> => {
  const path = stateFile(folder, state)
  try {
    const { size } = await stat(path)
    if (size !== state.bytes) return `${path} has ${size} bytes, not ${state.bytes}`
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(path)) {
      signal?.throwIfAborted()
      hash.update(chunk as Buffer)
    }
    return hash.digest('hex') === state.file ? null : `${path} does not match its sha256`
  } catch (error) {
    signal?.throwIfAborted()
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? `${path} is missing` : `${path} cannot be read: ${message}`
  }
}

/**
 * Writes the state's file to the path `to`. Resolves with the reason why it cannot be; null: it is written. Throws the reason of
 * `signal` if it is aborted.
 */
export const unpackState = async (
  folder: string,
  state: StateFile,
  to: string,
  signal?: AbortSignal,
): Promise<string | null> => {
  const fault = await stateFault(folder, state, signal)
  if (fault !== null) return fault
  try {
    await pipeline(
      createReadStream(stateFile(folder, state)),
      createZstdDecompress(),
      createWriteStream(to, { mode: 0o600 }),
      signal ? { signal } : {},
    )
    return null
  } catch (error) {
    await rm(to, { force: true })
    signal?.throwIfAborted()
    return `${stateFile(folder, state)} cannot be unpacked: ${(error as Error).message}`
  }
}

/** A file that no record names is another process's, which is about to append it, or was left by one that was killed. */
const UNRECORDED_MS = 3_600_000

/**
 * Removes the files of a state that are recorded but for those in `kept`, and what stopped runs have left: parts of processes that
 * have ended, and unrecorded files after an hour.
 */
export const removeOthers = async (
  folder: string,
  name: string,
  { kept, recorded }: { kept: readonly StateFile[]; recorded: readonly StateFile[] },
): Promise<void> => {
  const names = new Set(kept.map((one) => stateFile(folder, one)))
  const known = new Set(recorded.map((one) => stateFile(folder, one)))
  for (const entry of await readdir(folder)) {
    const path = join(folder, entry)
    const middle = entry.startsWith(`${name}.`) ? entry.slice(name.length + 1) : ''
    const isOther = /^[0-9a-f]{64}\.state\.zst$/.test(middle) && !names.has(path)
    const writer = /^(\d+)\.part$/.exec(middle)?.[1]
    if (writer !== undefined ? !isRunning(Number(writer)) : isOther && (known.has(path) || (await isOld(path))))
      await rm(path, { force: true })
  }
}

const isOld = async (path: string): Promise<boolean> => {
  const found = await stat(path).catch(() => null)
  return found !== null && Date.now() - found.mtimeMs > UNRECORDED_MS
}

/** Gives the file another name, too, unless the name is taken. */
export const linkNew = (path: string, name: string): void => {
  // A write-ahead log without its file would be applied to the new one.
  if (existsSync(name) || existsSync(`${name}-wal`)) return
  try {
    linkSync(path, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
