/** The types of records on their way to the brokers, and the brokers' errors by the producer's reaction. */
import type { TopicPartition } from './fetch.ts'
import type { KafkaMessage } from './record-batch.ts'

/** Limits of the records that wait to be written. `bytes`: of keys and values. */
export type QueueLimits = { records: number; bytes: number }

export type OutgoingRecord = TopicPartition & {
  message: KafkaMessage
  /**
   * Called before the record is sent, after all earlier records are prepared. May wait until the signal is aborted. An
   * error rejects the append call.
   */
  prepare?(signal: AbortSignal): Promise<void> | undefined
}

/** One call of `Producer.send`. `missing`: the number of its records that have no offset yet. */
export type AppendCall = {
  offsets: number[]
  missing: number
  failed: boolean
  resolve(offsets: number[]): void
  reject(cause: unknown): void
}
/** `index`: of the record in its call. `bytes`: of key and value. */
export type QueuedRecord = OutgoingRecord & { call: AppendCall; index: number; bytes: number }
/**
 * Records of one partition that are sent as one record batch, with consecutive sequence numbers. `blocked`: why the
 * partition took no records at the last attempt.
 */
export type ProducerBatch = TopicPartition & { records: QueuedRecord[]; blocked?: string | undefined }
/** The error that a broker returned for one batch of a request. */
export type Refusal = { batch: ProducerBatch; error: Error }

/** The broker does not know the producer id, or not its latest batch: a new id is required. */
export const NEW_ID_REQUIRED = new Set([
  'UNKNOWN_PRODUCER_ID',
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'INVALID_PRODUCER_EPOCH',
  'INVALID_PRODUCER_ID_MAPPING',
])
/** A retry with the same batches cannot succeed. */
export const NOT_RETRYABLE = new Set([
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_TIMESTAMP',
  'INVALID_RECORD',
  'CORRUPT_MESSAGE',
  'POLICY_VIOLATION',
])
/** The broker is not, or not yet, the leader: newer metadata name another. */
export const STALE_LEADER = new Set([
  'NOT_LEADER_FOR_PARTITION',
  'LEADER_NOT_AVAILABLE',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_TOPIC_OR_PARTITION',
])
/** The records are stored, but the broker no longer has their offset. */
export const DUPLICATE = 'DUPLICATE_SEQUENCE_NUMBER'
