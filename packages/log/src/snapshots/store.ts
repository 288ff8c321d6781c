/** A folder with the snapshot files of services. */
import type { SnapshotSettings } from './settings.ts'
import { Snapshot } from './snapshot.ts'
import type { StateVersion } from './version.ts'

export type SnapshotStore = {
  /** `name`: the file name without extension; `version`: the version of the folds. */
  of(name: string, version: StateVersion): Snapshot
  /** Called with a message when a file cannot be used or written. */
  logLine?: (line: string) => void
}

type SnapshotOptions = Partial<Omit<SnapshotSettings, 'folder'>>

/** Records between two snapshots, which a killed process reads again. */
const DEFAULT_RECORDS = 5_000
const DEFAULT_MS = 10_000
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
): SnapshotStore => ({
  logLine,
  of: (name, version) => new Snapshot({ folder, records, ms, cacheWeight, logLine, ...rest }, name, version),
})
