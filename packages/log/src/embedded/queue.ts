/**
 * The bounded queue in front of the writing thread. Calls of one turn of the event loop travel in one
 * message; the thread makes one transaction of all messages that wait for it.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { Worker } from 'node:worker_threads'
import { partitionOf, type PartitionCounts } from '../partition.ts'
import type { Append, Position } from '../port.ts'
import { checkAppend } from '../record.ts'
import type { AppendMessage, FromWriter, ToWriter, WriterData } from './messages.ts'

export type QueueLimits = { records: number; bytes: number }

/** Buffers up to this size are used again, at most so many of them. */
const POOLED_BYTES = 64 << 10
const POOLED = 64

type Call = { records: readonly Append[]; bytes: number; resolve(positions: Position[]): void; reject(cause: unknown): void }
type Sent = { partitions?: Uint16Array; calls: Call[]; commit?: { resolve(): void; reject(cause: unknown): void } }

const topicNumber = new Map<string, number>(TOPICS.map((topic, i) => [topic, i]))

export class Queue {
  readonly #worker: Worker
  readonly #limits: QueueLimits
  readonly #counts: PartitionCounts
  readonly #written: () => void
  #schemas: ReadonlyMap<string, number> = new Map()
  #waiting: Call[] = []
  readonly #sent = new Map<number, Sent>()
  readonly #pool: Uint8Array<ArrayBuffer>[] = []
  #nextId = 0
  #records = 0
  #bytes = 0
  /** Why nothing can be written any more. */
  #over: string | undefined
  readonly #exited: Promise<void>
  #drained: (() => void) | undefined

  private constructor(worker: Worker, data: WriterData, limits: QueueLimits, written: () => void) {
    this.#worker = worker
    this.#counts = data.counts
    this.#limits = limits
    this.#written = written
    const exited = Promise.withResolvers<void>()
    this.#exited = exited.promise
    worker.on('error', (cause) => this.#break(`the writing thread failed: ${cause instanceof Error ? cause.message : String(cause)}`))
    worker.on('exit', () => {
      this.#break('the log is closed')
      exited.resolve()
    })
  }

  /** Resolves when the folder is held and its file open; rejects with the writer's reason. */
  static open(data: WriterData, limits: QueueLimits, written: () => void): Promise<Queue> {
    const worker = new Worker(new URL('./writer.ts', import.meta.url), { workerData: data, name: 'instar log' })
    const queue = new Queue(worker, data, limits, written)
    return new Promise((resolve, reject) => {
      worker.once('error', reject)
      worker.on('message', (message: FromWriter) => {
        if (message.kind === 'ready') resolve(queue)
        else if (message.kind === 'refused') void queue.#exited.then(() => reject(new InstarError(message.code, message.message, message.details)))
        else queue.#settle(message)
      })
    })
  }

  /** Names and numbers of the schemas that a record may have. */
  knowSchemas(schemas: ReadonlyMap<string, number>): void {
    this.#schemas = schemas
  }

  append(records: readonly Append[]): Promise<Position[]> {
    if (this.#over !== undefined) return Promise.reject(unavailable(this.#over))
    if (records.length === 0) return Promise.resolve([])
    let bytes = 0
    for (const record of records) {
      checkAppend(record)
      if (!this.#schemas.has(record.schema)) throw new InstarError('bad_record', `the log was opened without the schema ${record.schema}`, { schema: record.schema })
      bytes += record.payload.length
    }
    if (this.#records > 0 && (this.#records + records.length > this.#limits.records || this.#bytes + bytes > this.#limits.bytes)) {
      return Promise.reject(new InstarError('log_full', `${this.#records} records (${this.#bytes} bytes) wait to be written`, { records: this.#records, bytes: this.#bytes }))
    }
    this.#records += records.length
    this.#bytes += bytes
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ records, bytes, resolve, reject }) === 1) queueMicrotask(() => this.#flush())
    })
  }

  commit(group: string, positions: readonly Position[]): Promise<void> {
    if (this.#over !== undefined) return Promise.reject(unavailable(this.#over))
    this.#flush()
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      this.#sent.set(id, { calls: [], commit: { resolve, reject } })
      this.#post({ kind: 'commit', id, group, positions: positions.map(({ topic, partition, offset }) => ({ topic, partition, offset })) })
    })
  }

  /** Writes what waits, then gives the folder back. */
  async close(): Promise<void> {
    this.#flush()
    if (this.#sent.size > 0) await new Promise<void>((resolve) => { this.#drained = resolve })
    this.#over ??= 'the log is closed'
    this.#post({ kind: 'close' })
    await this.#exited
  }

  #post(message: ToWriter, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer)
  }

  #flush(): void {
    const calls = this.#waiting
    if (calls.length === 0) return
    this.#waiting = []
    const records = calls.length === 1 ? calls[0]!.records : calls.flatMap((call) => call.records)
    const message = pack(this.#nextId++, records, this.#buffer(calls.reduce((sum, call) => sum + call.bytes, 0)), this.#counts, this.#schemas)
    this.#sent.set(message.id, { calls, partitions: message.partitions })
    this.#post(message, [message.bytes.buffer])
  }

  #settle(message: Extract<FromWriter, { kind: 'written' | 'failed' }>): void {
    if (message.kind === 'failed') {
      for (const id of message.ids) this.#take(id, (sent) => reject(sent, unavailable(message.message)))
      if (message.broken) this.#break(message.message)
    } else {
      for (const { id, offsets } of message.results) {
        this.#take(id, ({ calls, partitions, commit }) => {
          commit?.resolve()
          let i = 0
          for (const { records, resolve } of calls) resolve(records.map(({ topic }) => ({ topic, partition: partitions![i]!, offset: offsets![i++]! })))
        })
      }
      for (const bytes of message.bytes) if (bytes.length === POOLED_BYTES && this.#pool.length < POOLED) this.#pool.push(bytes)
      this.#written()
    }
    if (this.#sent.size === 0) this.#drained?.()
  }

  #buffer(bytes: number): Uint8Array<ArrayBuffer> {
    return bytes > POOLED_BYTES ? new Uint8Array(bytes) : this.#pool.pop() ?? new Uint8Array(POOLED_BYTES)
  }

  #take(id: number, settle: (sent: Sent) => void): void {
    const sent = this.#sent.get(id)
    if (!sent) return
    this.#sent.delete(id)
    for (const { records, bytes } of sent.calls) {
      this.#records -= records.length
      this.#bytes -= bytes
    }
    settle(sent)
  }

  #break(reason: string): void {
    this.#over ??= reason
    for (const id of [...this.#sent.keys()]) this.#take(id, (sent) => reject(sent, unavailable(reason)))
    for (const call of this.#waiting.splice(0)) call.reject(unavailable(reason))
    this.#drained?.()
  }
}

const reject = ({ calls, commit }: Sent, cause: InstarError): void => {
  commit?.reject(cause)
  for (const call of calls) call.reject(cause)
}

const unavailable = (reason: string): InstarError => new InstarError('log_unavailable', `the log cannot be written: ${reason}`)

const pack = (id: number, records: readonly Append[], bytes: Uint8Array<ArrayBuffer>, counts: PartitionCounts, schemaIds: ReadonlyMap<string, number>): AppendMessage => {
  const n = records.length
  const message: AppendMessage = {
    kind: 'append',
    id,
    topics: new Uint8Array(n),
    partitions: new Uint16Array(n),
    schemas: new Uint32Array(n),
    timestamps: new Float64Array(n),
    keys: new Array<string>(n),
    sizes: new Uint32Array(n),
    bytes,
    payloadBytes: 0,
  }
  let at = 0
  for (let i = 0; i < n; i++) {
    const { topic, key, schema, payload, timestamp } = records[i]!
    message.topics[i] = topicNumber.get(topic)!
    message.partitions[i] = partitionOf(key, counts[topic])
    message.schemas[i] = schemaIds.get(schema)!
    message.timestamps[i] = timestamp
    message.keys[i] = key
    message.sizes[i] = payload.length
    bytes.set(payload, at)
    at += payload.length
  }
  message.payloadBytes = at
  return message
}
