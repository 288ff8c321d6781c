/**
 * A frame: shared memory with the records of a transaction. The appending thread does not change published bytes until
 * the writing thread has answered. Layout of a record (numbers big-endian), followed by the key in UTF-8 and the
 * payload:
 *
 *   0 timestamp f64 · 8 schema id u32 · 12 key length u32 · 16 payload length u32 · 20 partition u16
 *   22 topic u8 (index into TOPICS) · 23 unused
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { murmur2, type PartitionCounts } from '../partition.ts'
import type { Append, Position } from '../port.ts'
import { checkAppend } from '../record.ts'

const HEADER = 24
const INITIAL_BYTES = 1 << 20
/**
 * A frame grows beyond this for a single call only, and shrinks after its transaction. Replaced memory stays allocated
 * until the writing thread collects its reference to it, which may take long: that thread allocates few objects.
 */
const MAX_RETAINED_BYTES = 4 << 20

const topicNumber = new Map<string, number>(TOPICS.map((topic, i) => [topic, i]))

/** `bytes`: of the payloads; `framed`: an upper bound of their bytes in a frame. Throws `bad_record`. */
export const sizeOf = (
  records: readonly Append[],
  schemas: ReadonlyMap<string, number>,
): { bytes: number; framed: number } => {
  let bytes = 0
  let framed = 0
  for (const record of records) {
    checkAppend(record)
    const { key, payload, schema } = record
    if (!schemas.has(schema)) {
      const message = `the schema ${schema} is not among those that the log was opened with`
      throw new InstarError('bad_record', message, { schema })
    }
    bytes += payload.length
    framed += HEADER + key.length * 3 + payload.length
  }
  return { bytes, framed }
}

/** The appending thread's side. */
export class Frame {
  #memory = Buffer.from(new SharedArrayBuffer(INITIAL_BYTES))
  #view = new DataView(this.#memory.buffer)
  /** Records of each topic. */
  readonly #counts = new Float64Array(TOPICS.length)
  used = 0
  records = 0

  get shared(): SharedArrayBuffer {
    return this.#memory.buffer as unknown as SharedArrayBuffer
  }

  fits(bytes: number): boolean {
    return this.used + bytes <= this.#memory.length
  }

  /** Whether `reserve` makes room for `bytes` more bytes within the memory that is retained. */
  mayReserve(bytes: number): boolean {
    return this.used + bytes <= MAX_RETAINED_BYTES
  }

  /** Makes room for `bytes` more bytes, in new memory if required. */
  reserve(bytes: number): void {
    if (this.fits(bytes)) return
    const before = this.#memory
    this.#allocate(Math.max(Math.min(2 * before.length, MAX_RETAINED_BYTES), this.used + bytes))
    before.copy(this.#memory, 0, 0, this.used)
  }

  /**
   * Adds a record, for which `reserve` made room. The returned offset is relative to the topic's first in this frame.
   */
  add({ topic, key, payload, timestamp }: Append, schema: number, partitions: PartitionCounts): Position {
    const at = this.used
    const memory = this.#memory
    const keyBytes = memory.write(key, at + HEADER, 'utf8')
    const end = at + HEADER + keyBytes
    const partition = (murmur2(memory, at + HEADER, end) & 0x7fffffff) % partitions[topic]
    const number = topicNumber.get(topic)!
    const view = this.#view
    view.setFloat64(at, timestamp)
    view.setUint32(at + 8, schema)
    view.setUint32(at + 12, keyBytes)
    view.setUint32(at + 16, payload.length)
    view.setUint16(at + 20, partition)
    view.setUint8(at + 22, number)
    // Copies the payload. Buffer.fill is one memcpy; TypedArray.set copies word by word into shared memory, 5 to 17
    // times
    // slower.
    memory.fill(payload, end, end + payload.length)
    this.used = end + payload.length
    this.records++
    return { topic, partition, offset: this.#counts[number]!++ }
  }

  clear(): void {
    this.used = 0
    this.records = 0
    this.#counts.fill(0)
    if (this.#memory.length > MAX_RETAINED_BYTES) this.#allocate(INITIAL_BYTES)
  }

  #allocate(bytes: number): void {
    this.#memory = Buffer.from(new SharedArrayBuffer(bytes))
    this.#view = new DataView(this.#memory.buffer)
  }
}

export type WriteRecord = (
  topic: number,
  partition: number,
  timestamp: number,
  schema: number,
  key: string,
  payload: Uint8Array,
) => void

/** The writing thread's side. */
export class FrameReader {
  readonly #memory: Buffer
  readonly #view: DataView

  constructor(shared: SharedArrayBuffer) {
    this.#memory = Buffer.from(shared)
    this.#view = new DataView(shared)
  }

  /** Calls `write` with each record between the byte offsets `from` and `to`, which must be boundaries of records. */
  each(from: number, to: number, write: WriteRecord): void {
    const view = this.#view
    for (let at = from; at < to;) {
      const key = at + HEADER
      const payload = key + view.getUint32(at + 12)
      const length = view.getUint32(at + 16)
      write(
        view.getUint8(at + 22),
        view.getUint16(at + 20),
        view.getFloat64(at),
        view.getUint32(at + 8),
        this.#memory.toString('utf8', key, payload),
        new Uint8Array(this.#memory.buffer, payload, length),
      )
      at = payload + length
    }
  }
}
