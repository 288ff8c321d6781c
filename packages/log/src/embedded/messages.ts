/** The messages between the appending and the writing thread, besides the shared words of `control.ts`. */
import type { ErrorCode } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { PartitionCounts } from '../partition.ts'
import type { Position } from '../port.ts'
import type { ControlMemory } from './control.ts'

export type WriterData = {
  folder: string
  counts: PartitionCounts
  schemas: Readonly<Record<string, string>>
  control: ControlMemory
}

/** Delete the records of the topic below the offset, between two transactions. */
export type TopicCutting = { kind: 'cut'; topic: Topic; until: number }

export type GroupCommit = { group: string; positions: Position[] }

/** Posted before the shared words open or seal the transaction that needs them. */
export type ToWriter =
  /** The new memory of a frame. */
  | { kind: 'memory'; frame: number; shared: SharedArrayBuffer }
  /** The group commits of the transaction with this number. */
  | { kind: 'commits'; transaction: number; commits: GroupCommit[] }
  | TopicCutting
  | { kind: 'close' }

export type FromWriter =
  | { kind: 'ready' }
  | { kind: 'refused'; code: ErrorCode; message: string; details: Record<string, unknown> }
  /**
   * The transaction is durable, its first offsets are in shared memory, and the next may be opened. A string, since it
   * is sent after every transaction.
   */
  | 'written'
  /** The answer to a cut. `error`: nothing was deleted. */
  | { kind: 'cut'; error: string | null }
  /** Not written, or the outcome is unknown. `broken`: no further write will succeed. */
  | Failed

export type Failed = { kind: 'failed'; message: string; broken: boolean }
