/** Settings of the snapshots in a folder. */
import type { Checkpoint } from '../checkpoints/on-log.ts'
import type { FoldFile } from './file.ts'

export type SnapshotSettings = {
  folder: string
  /** A snapshot is taken after this many records or milliseconds, whichever comes first. */
  records: number
  ms: number
  /** Weight of the entries that a `SpilledTable` caches in memory (1 each unless the table defines weights). */
  cacheWeight: number
  /** Called with a message when a file cannot be used or written. */
  logLine: (line: string) => void
  /** Turns of one session in a row, at most. */
  rowTurns?: number
  /** The folder of the files of checkpoints, from which a process without a snapshot of its own starts. */
  checkpoints?: string
  /** Which of them may be used; absent: each of a version that is known or can be migrated. */
  accepts?: (checkpoint: Checkpoint) => boolean
  /** Ends `open` with its reason while the state of a checkpoint is read. */
  signal?: AbortSignal | undefined
  /** ms since the epoch, for how long files of other builds are kept. Default: the process's clock. */
  now?: () => number
  /** Replaces the file in the folder by one in memory, by name. For simulations. */
  file?: (name: string) => FoldFile
}
