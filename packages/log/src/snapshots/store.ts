/** Where services keep their snapshots: a folder, one file for each. */
import { Snapshot, type SnapshotSettings } from './snapshot.ts'

export type SnapshotStore = {
  /** `name` becomes the name of the file; `version` identifies the code that made the state. */
  of(name: string, version: string): Snapshot
}

type SnapshotOptions = Partial<Omit<SnapshotSettings, 'folder'>>

/** Records between two snapshots: what a killed process reads again. */
const RECORDS = 5_000
const MS = 10_000
const ROOM = 4_000

export const openSnapshots = (
  folder: string,
  { records = RECORDS, ms = MS, room = ROOM, say = () => undefined }: SnapshotOptions = {},
): SnapshotStore => ({
  of: (name, version) => new Snapshot({ folder, records, ms, room, say }, name, version),
})
