/** Messages between the appending and the writing thread, besides the words of `control.ts`. */
import type { ErrorCode } from '@instar/events/errors'
import type { PartitionCounts } from '../partition.ts'
import type { Position } from '../port.ts'
import type { ControlMemory } from './control.ts'

export type WriterData = {
  folder: string
  counts: PartitionCounts
  schemas: Readonly<Record<string, string>>
  control: ControlMemory
}

export type GroupCommit = { group: string; positions: Position[] }

/** Posted before the words say that a transaction is open, or that it is whole. */
export type ToWriter =
  /** The memory of a frame from now on. */
  | { kind: 'memory'; frame: number; shared: SharedArrayBuffer }
  /** Part of the transaction of this number; nothing to a later one. */
  | { kind: 'commits'; transaction: number; commits: GroupCommit[] }
  | { kind: 'close' }

export type FromWriter =
  | { kind: 'ready' }
  | { kind: 'refused'; code: ErrorCode; message: string; details: Record<string, unknown> }
  /**
   * The transaction is durable and the words hold its first offsets; the next may be opened. A bare string, because
   * it is sent after every transaction.
   */
  | 'written'
  /** Not written, or the outcome is unknown. After `broken` no write succeeds: opening the file again failed. */
  | Failed

export type Failed = { kind: 'failed'; message: string; broken: boolean }
