/**
 * Records on their way to the writing thread: memory that both threads see, filled by one and, while the
 * other writes it, touched by that one alone. Per record a header, the key's UTF-8 and the payload:
 *
 *   0 offset f64 (set by the writer) · 8 timestamp f64 · 16 schema u32 · 20 key bytes u32
 *   24 payload bytes u32 · 28 partition u16 · 30 topic u8 (index into TOPICS) · 31 unused
 */
import { TOPICS } from '@instar/events/flow'
import { murmur2, type PartitionCounts } from '../partition.ts'
import type { Append, Position } from '../port.ts'

const HEADER = 32
/** What a frame begins with, and goes back to after it had to grow beyond `KEPT`. */
const SMALL = 256 << 10
const KEPT = 4 << 20

const topicNumber = new Map<string, number>(TOPICS.map((topic, i) => [topic, i]))

/** The appending thread's side. */
export class Frame {
  #memory = Buffer.from(new SharedArrayBuffer(SMALL))
  #view = new DataView(this.#memory.buffer)
  #used = 0
  records = 0

  get shared(): SharedArrayBuffer {
    return this.#memory.buffer as unknown as SharedArrayBuffer
  }

  put({ topic, key, payload, timestamp }: Append, schema: number, counts: PartitionCounts): void {
    const at = this.#used
    this.#reserve(HEADER + key.length * 3 + payload.length)
    const keyBytes = this.#memory.write(key, at + HEADER, 'utf8')
    const partition = (murmur2(this.#memory.subarray(at + HEADER, at + HEADER + keyBytes)) & 0x7fffffff) % counts[topic]
    const view = this.#view
    view.setFloat64(at + 8, timestamp)
    view.setUint32(at + 16, schema)
    view.setUint32(at + 20, keyBytes)
    view.setUint32(at + 24, payload.length)
    view.setUint16(at + 28, partition)
    view.setUint8(at + 30, topicNumber.get(topic)!)
    this.#memory.set(payload, at + HEADER + keyBytes)
    this.#used = at + HEADER + keyBytes + payload.length
    this.records++
  }

  /** Of every record, in the order of `put`, once the writer has written them. */
  *positions(): Generator<Position> {
    for (let at = 0; at < this.#used;) {
      yield { topic: TOPICS[this.#view.getUint8(at + 30)]!, partition: this.#view.getUint16(at + 28), offset: this.#view.getFloat64(at) }
      at += HEADER + this.#view.getUint32(at + 20) + this.#view.getUint32(at + 24)
    }
  }

  clear(): void {
    this.#used = 0
    this.records = 0
    if (this.#memory.length > KEPT) this.#allocate(SMALL)
  }

  #reserve(bytes: number): void {
    if (this.#used + bytes <= this.#memory.length) return
    const before = this.#memory
    this.#allocate(Math.max(2 * before.length, this.#used + bytes))
    before.copy(this.#memory, 0, 0, this.#used)
  }

  #allocate(bytes: number): void {
    this.#memory = Buffer.from(new SharedArrayBuffer(bytes))
    this.#view = new DataView(this.#memory.buffer)
  }
}

export type FramedRecord = { topic: number; partition: number; timestamp: number; schema: number; key: string; payload: Uint8Array }

/** The writing thread's side: stores each of `records` and notes the offset that `write` gives it. */
export const writeFrame = (shared: SharedArrayBuffer, records: number, write: (record: FramedRecord) => number): void => {
  const memory = Buffer.from(shared)
  const view = new DataView(shared)
  let at = 0
  for (let i = 0; i < records; i++) {
    const key = at + HEADER
    const payload = key + view.getUint32(at + 20)
    const end = payload + view.getUint32(at + 24)
    const offset = write({
      topic: view.getUint8(at + 30),
      partition: view.getUint16(at + 28),
      timestamp: view.getFloat64(at + 8),
      schema: view.getUint32(at + 16),
      key: memory.toString('utf8', key, payload),
      payload: memory.subarray(payload, end),
    })
    view.setFloat64(at, offset)
    at = end
  }
}
