/**
 * Files that builds with another state wrote, beside the one in use. They stay for a day after such a build used them last, so
 * that a deploy can be taken back, and made again, without reading the log from its start.
 */
import { readdirSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { FoldFile } from './file.ts'

export const KEPT_MS = 86_400_000
const META = 'other builds'

type Options = { now: () => number; logLine: (line: string) => void; name: string }

export class OtherBuilds {
  readonly #options: Options
  /** By path, since when no other build has used it, ms since the epoch. */
  readonly #unused = new Map<string, number>()

  /** `file`: the one in use, which keeps the times. */
  constructor(file: FoldFile, paths: readonly string[], options: Options) {
    this.#options = options
    const known = timesIn(file)
    const now = options.now()
    for (const path of paths) {
      const since = known[basename(path)]
      this.#unused.set(path, since === undefined || lastUsed(path) > since ? now : Math.min(since, now))
    }
    if (paths.length > 0 || Object.keys(known).length > 0) this.#keep(file)
  }

  get size(): number {
    return this.#unused.size
  }

  /** Bytes of the files, without names of answers beside them. */
  bytes(): number {
    return [...this.#unused.keys()].reduce((sum, path) => sum + sizeOf(path) + sizeOf(`${path}-wal`), 0)
  }

  /** Removes those that no build has used for a day. */
  async removeUnused(file: FoldFile): Promise<void> {
    const { now, logLine, name } = this.#options
    const before = now() - KEPT_MS
    for (const [path, since] of this.#unused) {
      if (since > before) continue
      // A process of the other build that runs writes it.
      if (lastUsed(path) > since) this.#unused.set(path, now())
      else {
        this.#unused.delete(path)
        try {
          for (const part of partsOf(path)) await rm(part, { recursive: true, force: true })
          logLine(`${name}: ${basename(path)}, which another build wrote, was not used for a day and is removed`)
        } catch (error) {
          logLine(`${name}: ${basename(path)} was not removed: ${(error as Error).message}`)
        }
      }
      this.#keep(file)
    }
  }

  #keep(file: FoldFile): void {
    file.setMeta(META, JSON.stringify(Object.fromEntries([...this.#unused].map(([path, at]) => [basename(path), at]))))
  }
}

const timesIn = (file: FoldFile): Record<string, number> => {
  try {
    return JSON.parse(file.meta(META) ?? '{}') as Record<string, number>
  } catch {
    return {}
  }
}

/** When a file of this path was written last, ms since the epoch; 0 if there is none. Looking at a file leaves an empty log beside it. */
export const lastUsed = (path: string): number => {
  const [file, wal] = [path, `${path}-wal`].map((one) => statSync(one, { throwIfNoEntry: false }))
  return Math.floor(Math.max(file?.mtimeMs ?? 0, wal && wal.size > 0 ? wal.mtimeMs : 0))
}

/** The file, and what stands beside it: its write-ahead log, names of answers. */
const partsOf = (path: string): string[] => {
  const [folder, name] = [dirname(path), basename(path)]
  return readdirSync(folder)
    .filter((file) => file === name || file.startsWith(`${name}-`) || file.startsWith(`${name}.`))
    .map((file) => join(folder, file))
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
