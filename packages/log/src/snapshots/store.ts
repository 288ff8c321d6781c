/** A folder with the snapshot files of services. */
import type { SnapshotSettings } from './settings.ts'
import { Snapshot } from './snapshot.ts'
import type { StateVersion } from './version.ts'

export type SnapshotStore = {
  /** `name`: the file name without extension; `version`: the version of the folds. */
  of(name: string, version: StateVersion): Snapshot
  /** The states that are read from the start of the log, beside those of another build, and how many records they have. */
  folding(): { name: string; folded: number }[]
  /** Files that builds with another state wrote. */
  otherBuilds(): { count: number; bytes: number }
  /** Called with a message when a file cannot be used or written. */
  logLine?: (line: string) => void
}

type SnapshotOptions = Partial<Omit<SnapshotSettings, 'folder'>>

/** Records between two snapshots, which a killed process reads again. */
const DEFAULT_RECORDS = 5_000
const DEFAULT_MS = 60_000
const DEFAULT_CACHE_WEIGHT = 4_000

export const openSnapshots = (
  folder: string,
  {
    records = DEFAULT_RECORDS,
    ms = DEFAULT_MS,
    cacheWeight = DEFAULT_CACHE_WEIGHT,
    logLine = () => undefined,
    ...rest
  }: SnapshotOptions = {},
): SnapshotStore => {
  /** By name the one that was made last: a service that starts again in its process has another. */
  const made = new Map<string, Snapshot>()
  return {
    logLine,
    of(name, version) {
      const snapshot = new Snapshot({ folder, records, ms, cacheWeight, logLine, ...rest }, name, version)
      made.set(name, snapshot)
      return snapshot
    },
    folding: () =>
      [...made].flatMap(([name, snapshot]) => {
        const folded = snapshot.folding()
        return folded === null ? [] : [{ name, folded }]
      }),
    otherBuilds: () =>
      [...made.values()]
        .map((snapshot) => snapshot.otherBuilds())
        .reduce((sum, one) => ({ count: sum.count + one.count, bytes: sum.bytes + one.bytes }), { count: 0, bytes: 0 }),
  }
}
