/** What the thread that appends and the thread that writes say to each other. */
import type { ErrorCode } from '@instar/events/errors'
import type { PartitionCounts } from '../partition.ts'

export type WriterData = { folder: string; counts: PartitionCounts; schemas: Readonly<Record<string, string>> }

/**
 * Records of one or several calls, in columns; `bytes` holds the payloads end to end. It is transferred, and
 * comes back with the answer: no thread leaves the other's memory to its own collector.
 */
export type AppendMessage = {
  kind: 'append'
  id: number
  /** Index into TOPICS. */
  topics: Uint8Array
  partitions: Uint16Array
  schemas: Uint32Array
  timestamps: Float64Array
  keys: string[]
  sizes: Uint32Array
  bytes: Uint8Array<ArrayBuffer>
  payloadBytes: number
}

export type CommitMessage = { kind: 'commit'; id: number; group: string; positions: { topic: string; partition: number; offset: number }[] }
export type WriteMessage = AppendMessage | CommitMessage
export type ToWriter = WriteMessage | { kind: 'close' }

export type FromWriter =
  | { kind: 'ready' }
  | { kind: 'refused'; code: ErrorCode; message: string; details: Record<string, unknown> }
  /** Durable: the messages of one transaction, each with the offsets of its records. */
  | { kind: 'written'; results: { id: number; offsets?: Float64Array }[]; bytes: Uint8Array<ArrayBuffer>[] }
  /** Rolled back. After `broken` the file is not written again until it is opened anew. */
  | { kind: 'failed'; ids: number[]; message: string; broken: boolean }
