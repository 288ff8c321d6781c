/** The bounded queue of a producer: records in the order of their appends, and the calls that they belong to. */
import { InstarError } from '@instar/events/errors'
import type { AppendCall, OutgoingRecord, ProducerBatch, QueuedRecord, QueueLimits } from './producer-batch.ts'

/** Maximum size of what `take` returns, unless it is a single record. */
const TAKE_RECORDS = 2000
const TAKE_BYTES = 4 << 20
/** Estimated bytes of a record besides its key and value. */
const OVERHEAD = 100

const bytesOf = ({ message }: OutgoingRecord): number => (message.key?.length ?? 0) + (message.value?.length ?? 0)

export class AppendQueue {
  readonly #limits: QueueLimits
  readonly #queue: QueuedRecord[] = []
  /** Records, and their bytes, that are neither written nor rejected, taken ones included. */
  #records = 0
  #bytes = 0

  constructor(limits: QueueLimits) {
    this.#limits = limits
  }

  /** Whether `take` would return nothing. */
  get empty(): boolean {
    return this.#queue.length === 0
  }

  /** The number of records that are neither written nor rejected. */
  get unwritten(): number {
    return this.#records
  }

  /** The error `log_full` if there is no room for all records; a queue without records accepts any call. */
  full(records: readonly OutgoingRecord[]): InstarError | undefined {
    const bytes = records.reduce((sum, record) => sum + bytesOf(record), 0)
    const { records: maxRecords, bytes: maxBytes } = this.#limits
    if (this.#records === 0 || (this.#records + records.length <= maxRecords && this.#bytes + bytes <= maxBytes))
      return undefined
    return new InstarError('log_full', `${this.#records} records (${this.#bytes} bytes) are waiting to be written`, {
      records: this.#records,
      bytes: this.#bytes,
    })
  }

  /** Adds the records of a call. Resolves with their offsets once all are written. */
  add(records: readonly OutgoingRecord[]): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const call: AppendCall = {
        offsets: new Array<number>(records.length),
        missing: records.length,
        failed: false,
        resolve,
        reject,
      }
      for (const [index, record] of records.entries()) {
        const bytes = bytesOf(record)
        this.#queue.push({ ...record, call, index, bytes })
        this.#bytes += bytes
      }
      this.#records += records.length
    })
  }

  /** Removes the first records from the queue, up to `TAKE_RECORDS` and `TAKE_BYTES`. */
  take(): QueuedRecord[] {
    let count = 0
    let bytes = 0
    for (const record of this.#queue) {
      bytes += record.bytes + OVERHEAD
      if (count > 0 && (bytes > TAKE_BYTES || count === TAKE_RECORDS)) break
      count++
    }
    return this.#queue.splice(0, count)
  }

  /** Prepares taken records in order. Returns those to send; records of a failed call are dropped. */
  async prepare(records: readonly QueuedRecord[], signal: AbortSignal): Promise<QueuedRecord[]> {
    const prepared: QueuedRecord[] = []
    for (const record of records) {
      try {
        const preparing = record.call.failed ? undefined : record.prepare?.(signal)
        if (preparing) await preparing
        if (record.call.failed) this.#release(record)
        else prepared.push(record)
      } catch (cause) {
        this.fail(record, cause)
      }
    }
    return prepared
  }

  /** Records were written from `baseOffset` on. Resolves the calls that are complete. */
  complete(records: readonly QueuedRecord[], baseOffset: number): void {
    for (const [i, record] of records.entries()) {
      this.#release(record)
      const { call } = record
      call.offsets[record.index] = baseOffset + i
      if (--call.missing === 0 && !call.failed) call.resolve(call.offsets)
    }
  }

  /** Rejects the calls of all records of the batches. */
  failAll(batches: readonly Pick<ProducerBatch, 'records'>[], cause: unknown): void {
    for (const { records } of batches) for (const record of records) this.fail(record, cause)
  }

  /** Rejects the call of a record. */
  fail(record: QueuedRecord, cause: unknown): void {
    this.#release(record)
    if (record.call.failed) return
    record.call.failed = true
    record.call.reject(cause)
  }

  #release({ bytes }: QueuedRecord): void {
    this.#records--
    this.#bytes -= bytes
  }
}
