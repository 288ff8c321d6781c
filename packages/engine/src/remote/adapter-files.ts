/** Writes adapters as PEFT folders, which the engines read. A folder's name is the sha256 of its adapter. */
import type { Adapter } from '../port.ts'
import type { AdapterBytes } from '../protocols/wire.ts'
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import type { Stats } from 'node:fs'
import { join } from 'node:path'

/** Folders that are not deleted although no engine has them loaded: an engine may load one again. */
const MAX_UNUSED_FOLDERS = 16

const WEIGHTS = 'adapter_model.safetensors'
const CONFIG = 'adapter_config.json'

export const readAdapterFolder = async (folder: string): Promise<AdapterBytes> => ({
  config: await readFile(join(folder, CONFIG)),
  weights: await readFile(join(folder, WEIGHTS)),
})

export class AdapterFiles {
  private readonly folder: string

  constructor(folder: string) {
    this.folder = folder
  }

  pathOf(sha256: string): string {
    return join(this.folder, sha256)
  }

  /**
   * Returns the adapter's folder, which is written if it does not exist. It is created by a rename, so it is never
   * incomplete, even with several writers.
   */
  async write({ sha256, weights, config }: Adapter): Promise<string> {
    const path = this.pathOf(sha256)
    if ((await sizeOf(join(path, WEIGHTS))) === weights.length) {
      const now = new Date()
      await utimes(path, now, now)
      return path
    }
    const temporary = `${path}.${process.pid}.${performance.now()}.draft`
    await mkdir(temporary, { recursive: true })
    await writeDurably(join(temporary, CONFIG), config)
    await writeDurably(join(temporary, WEIGHTS), weights)
    try {
      await rename(temporary, path)
    } catch (error) {
      await rm(temporary, { recursive: true, force: true })
      // Another gateway has written the same bytes.
      if ((await sizeOf(join(path, WEIGHTS))) !== weights.length) throw error
    }
    return path
  }

  /** Deletes the oldest folders that are not in `inUse`, except MAX_UNUSED_FOLDERS. */
  async prune(inUse: ReadonlySet<string>): Promise<void> {
    const names = (await readdir(this.folder)).filter((name) => /^[0-9a-f]{64}$/.test(name) && !inUse.has(name))
    const modified = await Promise.all(
      names.map(async (name) => {
        // Another gateway may have deleted it.
        const at = await modifiedAt(this.pathOf(name))
        return at === null ? [] : [{ name, at }]
      }),
    )
    for (const { name } of modified
      .flat()
      .sort((a, b) => b.at - a.at)
      .slice(MAX_UNUSED_FOLDERS))
      await rm(this.pathOf(name), { recursive: true, force: true })
  }
}

const modifiedAt = async (path: string): Promise<number | null> => (await statOf(path))?.mtimeMs ?? null
const sizeOf = async (file: string): Promise<number | null> => (await statOf(file))?.size ?? null

const statOf = async (path: string): Promise<Stats | null> => {
  try {
    return await stat(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

const writeDurably = async (file: string, bytes: Uint8Array): Promise<void> => {
  const handle = await open(file, 'w')
  try {
    await handle.writeFile(bytes)
    await handle.sync()
  } finally {
    await handle.close()
  }
}
