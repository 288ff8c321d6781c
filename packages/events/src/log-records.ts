/** The records of the topics `blobs` and `upgrades`, which concern the whole log. The other types are in records.ts. */

export type BlobChunk = {
  type: 'BlobChunk'
  sha256: string
  index: number
  count: number
  bytes: Uint8Array
  at: number
}

/** All readers of the log support these record types up to these versions, which may be written from here on. */
export type ReadersUpgraded = { type: 'ReadersUpgraded'; versions: Record<string, number>; who: string; at: number }

/**
 * The settings of a service that differ from those recorded before, all of its section (`training`, `gate`, `judge`), by
 * name and as JSON. Written at a start, only once all readers support it; without a record the defaults of the build were
 * in force. `judges`: ids of the judges that the settings make, as scores name them.
 */
export type SettingsChanged = {
  type: 'SettingsChanged'
  policy: string
  section: string
  settings: Record<string, string>
  judges: string[]
  who: string
  at: number
}

/**
 * The state of a service's fold after some of the records. `name`: of the state, `SERVICE.POLICY`; `version`: of its form and
 * fold. `digest`: SHA-256 of all its rows in a canonical form; `rows`: their number. `positions`: of each partition of which
 * a record was folded, the next offset and the id of the last record. `file`: SHA-256 of a file of the state, of `bytes`
 * bytes, which is not on the log. Written only once all readers support it.
 */
export type StateCheckpointed = {
  type: 'StateCheckpointed'
  name: string
  version: number
  digest: string
  rows: number
  positions: { topic: string; partition: number; next: number; record: string }[]
  file: string
  bytes: number
  who: string
  at: number
}

/**
 * Allows the log to delete records of `turns` and `scores`. `starts`: of a partition the first offset that may be held: every record
 * below it may be deleted, none at or above it. `record`: the id of the last record of the partition below `start`; null: there is
 * none. `archive`: the place of the archive that has the records, without credentials; `manifest`: the SHA-256 of its manifest.
 * `checkpoints`: ids of the records of checkpoints that have folded them. Written only once all readers support it.
 */
export type LogCut = {
  type: 'LogCut'
  starts: { topic: string; partition: number; start: number; record: string | null }[]
  archive: string
  manifest: string
  checkpoints: string[]
  who: string
  at: number
}

export type UpgradesEvent = ReadersUpgraded | SettingsChanged | StateCheckpointed | LogCut
