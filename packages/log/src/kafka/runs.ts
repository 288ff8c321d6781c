/** What a producer has to send, and what brokers say of it. */
import type { TopicPartition } from './fetch.ts'
import type { KafkaMessage } from './record-batch.ts'

export type QueueLimits = { records: number; bytes: number }

export type Outgoing = TopicPartition & {
  message: KafkaMessage
  /**
   * Called last before the record is sent, after all records before it; may wait until the signal. An error rejects
   * the call.
   */
  prepare?(signal: AbortSignal): Promise<void> | undefined
}

export type AppendCall = {
  offsets: number[]
  missing: number
  failed: boolean
  resolve(offsets: number[]): void
  reject(cause: unknown): void
}
export type QueuedRecord = Outgoing & { call: AppendCall; index: number; bytes: number }
/** The records of a batch for one partition: one record batch of Kafka's, with one run of sequence numbers. */
export type Run = TopicPartition & { items: QueuedRecord[]; leaderless?: boolean }

/** The broker does not know this producer, or not its latest batch. */
export const DISOWNED = new Set([
  'UNKNOWN_PRODUCER_ID',
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'INVALID_PRODUCER_EPOCH',
  'INVALID_PRODUCER_ID_MAPPING',
])
/** No later try can succeed with the same records together. */
export const REFUSED = new Set([
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_TIMESTAMP',
  'INVALID_RECORD',
  'CORRUPT_MESSAGE',
  'POLICY_VIOLATION',
])
/** The records are stored, but the broker no longer has their offset. */
export const DUPLICATE = 'DUPLICATE_SEQUENCE_NUMBER'
