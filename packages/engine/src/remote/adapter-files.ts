/** Adapters as PEFT folders that the engines read. A folder's name is the sha256 of its adapter. */
import type { Adapter } from '../port.ts'
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import type { Stats } from 'node:fs'
import { join } from 'node:path'

/** Folders kept besides those in use: an engine may read one again after unloading it. */
const UNUSED_FOLDERS_MAX = 16

const WEIGHTS = 'adapter_model.safetensors'

export class AdapterFiles {
  private readonly folder: string

  constructor(folder: string) {
    this.folder = folder
  }

  pathOf(sha256: string): string {
    return join(this.folder, sha256)
  }

  /** Returns the adapter's folder. It appears by a rename, so it is complete even with several writers. */
  async write({ sha256, weights, config }: Adapter): Promise<string> {
    const path = this.pathOf(sha256)
    if ((await sizeOf(join(path, WEIGHTS))) === weights.length) {
      const now = new Date()
      await utimes(path, now, now)
      return path
    }
    const draft = `${path}.${process.pid}.${performance.now()}.draft`
    await mkdir(draft, { recursive: true })
    await writeDurably(join(draft, 'adapter_config.json'), config)
    await writeDurably(join(draft, WEIGHTS), weights)
    try {
      await rename(draft, path)
    } catch (error) {
      await rm(draft, { recursive: true, force: true })
      // Another gateway wrote it first, with the same bytes.
      if ((await sizeOf(join(path, WEIGHTS))) !== weights.length) throw error
    }
    return path
  }

  /** Removes the oldest folders that are not in `held`. */
  async prune(held: ReadonlySet<string>): Promise<void> {
    const names = (await readdir(this.folder)).filter((name) => /^[0-9a-f]{64}$/.test(name) && !held.has(name))
    const aged = await Promise.all(
      names.map(async (name) => {
        // Another gateway may have removed it.
        const at = await ageOf(this.pathOf(name))
        return at === null ? [] : [{ name, at }]
      }),
    )
    for (const { name } of aged
      .flat()
      .sort((a, b) => b.at - a.at)
      .slice(UNUSED_FOLDERS_MAX))
      await rm(this.pathOf(name), { recursive: true, force: true })
  }
}

const ageOf = async (path: string): Promise<number | null> => (await statOf(path))?.mtimeMs ?? null
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
