/** What the thread that appends and the thread that writes say to each other. */
import type { ErrorCode } from '@instar/events/errors'
import type { PartitionCounts } from '../partition.ts'
import type { Position } from '../port.ts'

export type WriterData = { folder: string; counts: PartitionCounts; schemas: Readonly<Record<string, string>> }

export type GroupCommit = { group: string; positions: Position[] }

export type ToWriter =
  /** One transaction; the next is sent when this one is answered. `shared`: a frame, kept from the last time it was given. */
  | { kind: 'write'; frame: number; shared?: SharedArrayBuffer; records: number; commits?: GroupCommit[] }
  | { kind: 'close' }

export type FromWriter =
  | { kind: 'ready' }
  | { kind: 'refused'; code: ErrorCode; message: string; details: Record<string, unknown> }
  /** Durable; the offsets are in the frame. */
  | { kind: 'written' }
  /** Not written, or not known to be. After `broken` nothing is written any more: opening the file again did not help. */
  | { kind: 'failed'; message: string; broken: boolean }
