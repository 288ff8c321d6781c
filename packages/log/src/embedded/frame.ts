/**
 * Records on their way to the writing thread: memory that both threads see. What lies below the bytes that were
 * published is not touched by the appending thread until the writer has answered. Per record a header, the key's
 * UTF-8 and the payload:
 *
 *   0 timestamp f64 · 8 schema u32 · 12 key bytes u32 · 16 payload bytes u32 · 20 partition u16
 *   22 topic u8 (index into TOPICS) · 23 unused
 */
import { TOPICS } from '@instar/events/flow'
import { murmur2, type PartitionCounts } from '../partition.ts'
import type { Append, Position } from '../port.ts'

const HEADER = 24
/** Initial size of a frame, and its size again after it grew beyond `KEPT`. */
const SMALL = 1 << 20
const KEPT = 4 << 20

const topicNumber = new Map<string, number>(TOPICS.map((topic, i) => [topic, i]))

/** An upper bound of what a record takes in a frame. */
export const framedBytes = ({ key, payload }: Append): number => HEADER + key.length * 3 + payload.length

/** The appending thread's side. */
export class Frame {
  #memory = Buffer.from(new SharedArrayBuffer(SMALL))
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

  /** Takes other memory when what it has is too small. */
  reserve(bytes: number): void {
    if (this.fits(bytes)) return
    const before = this.#memory
    this.#allocate(Math.max(2 * before.length, this.used + bytes))
    before.copy(this.#memory, 0, 0, this.used)
  }

  /** The position's offset counts from the first record of the topic in this frame. There has to be room. */
  put({ topic, key, payload, timestamp }: Append, schema: number, partitions: PartitionCounts): Position {
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
    // Copies the payload. Node's `fill` is one memcpy; V8's `set` copies word by word into shared memory, 5 to 17
    // times slower.
    memory.fill(payload, end, end + payload.length)
    this.used = end + payload.length
    this.records++
    return { topic, partition, offset: this.#counts[number]!++ }
  }

  clear(): void {
    this.used = 0
    this.records = 0
    this.#counts.fill(0)
    if (this.#memory.length > KEPT) this.#allocate(SMALL)
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

  /** Each record from `from`, where one begins, up to `to`, where one ends. */
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
