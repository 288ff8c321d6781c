/** An archive in a folder: a file for each object, mode 0600 in folders of mode 0700. */
import { InstarError } from '@instar/events/errors'
import { constants, link, mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { lockFolder } from '../embedded/file.ts'
import { restrictMode } from '../permissions.ts'
import { syncFolder } from '../sync-folder.ts'
import { damaged, sha256 } from './manifest.ts'
import type { ArchiveStore, Stored } from './store.ts'

/** Without waiting for who writes to what is no file but a FIFO. */
const READING = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/** `writing`: creates the folder, and locks it until `close`. Throws `data_in_use`, `archive_unavailable`. */
export const openFolderStore = (folder: string, writing: boolean): ArchiveStore => {
  const fail = (name: string, cause: unknown): never => {
    if (cause instanceof InstarError) throw cause
    throw new InstarError(
      'archive_unavailable',
      `${folder}: ${name}: ${(cause as Error).message}`,
      { archive: folder, object: name },
      { cause },
    )
  }
  let lock: ReturnType<typeof lockFolder> | undefined
  if (writing) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      restrictMode(folder, 0o700)
    } catch (cause) {
      fail('the folder', cause)
    }
    lock = lockFolder(folder)
  }

  const read: ArchiveStore['read'] = async (name, maxBytes) => {
    let file: FileHandle | undefined
    try {
      file = await open(join(folder, name), READING)
      const stat = await file.stat()
      if (!stat.isFile()) throw damaged(folder, name, 'it is no regular file')
      const { size } = stat
      if (size > maxBytes) throw damaged(folder, name, `it has ${size} bytes, more than ${maxBytes}`)
      const bytes = await file.readFile()
      return { bytes, tag: sha256(bytes) }
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      return fail(name, cause)
    } finally {
      await file?.close()
    }
  }

  /** Writes a file beside its place, on the disk when it resolves. */
  const writePart = async (path: string, bytes: Buffer): Promise<string> => {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const part = `${path}.part`
    await rm(part, { force: true })
    const file = await open(part, 'wx', 0o600)
    try {
      await file.writeFile(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
    return part
  }

  const put = async (name: string, bytes: Buffer, place: (part: string, path: string) => Promise<void>) => {
    try {
      const path = join(folder, name)
      const part = await writePart(path, bytes)
      await place(part, path)
      await syncFolder(dirname(path))
    } catch (cause) {
      fail(name, cause)
    }
  }

  return {
    address: folder,
    read,
    write: (name, bytes) => put(name, bytes, rename),
    async replace(name, bytes, tag) {
      const before: Stored | undefined = await read(name, Infinity)
      if (before?.tag !== tag)
        throw new InstarError('archive_differs', `${folder}: ${name} was changed by another process`, {
          archive: folder,
        })
      await put(name, bytes, before ? rename : linkNew)
      return sha256(bytes)
    },
    async close() {
      lock?.close()
    },
  }
}

/** Gives the file its name unless the name is taken. */
const linkNew = async (part: string, path: string): Promise<void> => {
  await link(part, path)
  await rm(part)
}
