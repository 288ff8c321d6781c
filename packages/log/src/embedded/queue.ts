/**
 * The bounded queue in front of the writing thread. While one batch is written the next one fills: all that
 * wait share one transaction, and one flush.
 */
import { InstarError } from '@instar/events/errors'
import { Worker } from 'node:worker_threads'
import type { Append, Position } from '../port.ts'
import { checkAppend } from '../record.ts'
import { Frame } from './frame.ts'
import type { FromWriter, GroupCommit, ToWriter, WriterData } from './messages.ts'

export type QueueLimits = { records: number; bytes: number }

type Settle<T> = { resolve(value: T): void; reject(cause: unknown): void }

type Batch = {
  /** 0 or 1. */
  number: number
  frame: Frame
  /** The memory that the writer knows as this frame. */
  known?: SharedArrayBuffer
  /** Payload bytes. */
  bytes: number
  calls: (Settle<Position[]> & { records: number })[]
  commits: (Settle<void> & GroupCommit)[]
}

const emptyBatch = (number: number): Batch => ({ number, frame: new Frame(), bytes: 0, calls: [], commits: [] })

export class Queue {
  readonly #worker: Worker
  readonly #data: WriterData
  readonly #limits: QueueLimits
  #written = (): void => {}
  #schemas: ReadonlyMap<string, number> = new Map()
  #filling = emptyBatch(0)
  #other = emptyBatch(1)
  /** `#other` is being written. */
  #busy = false
  #scheduled = false
  #closing = false
  /** Why nothing can be written any more. */
  #over: InstarError | undefined
  #onBroken = (_error: InstarError): void => {}
  #drained: (() => void) | undefined
  readonly #exited: Promise<void>

  private constructor(worker: Worker, data: WriterData, limits: QueueLimits) {
    this.#worker = worker
    this.#data = data
    this.#limits = limits
    const exited = Promise.withResolvers<void>()
    this.#exited = exited.promise
    worker.on('error', (cause) => this.#break(broken(`the writing thread failed: ${cause instanceof Error ? cause.message : String(cause)}`)))
    worker.on('exit', () => {
      this.#break(this.#closing ? unavailable(CLOSED) : broken('the writing thread ended'))
      exited.resolve()
    })
  }

  /** Resolves when the folder is held and its file open; rejects with the writer's reason. */
  static open(data: WriterData, limits: QueueLimits): Promise<Queue> {
    const worker = new Worker(new URL('./writer.ts', import.meta.url), { workerData: data, name: 'instar log' })
    const queue = new Queue(worker, data, limits)
    return new Promise((resolve, reject) => {
      worker.once('error', reject)
      worker.on('message', (message: FromWriter) => {
        if (message.kind === 'ready') resolve(queue)
        else if (message.kind === 'refused') void queue.#exited.then(() => reject(new InstarError(message.code, message.message, message.details)))
        else queue.#answered(message)
      })
    })
  }

  /** Names and numbers of the schemas that a record may have. */
  knowSchemas(schemas: ReadonlyMap<string, number>): void {
    this.#schemas = schemas
  }

  /** Called after each transaction. */
  onWritten(written: () => void): void {
    this.#written = written
  }

  /** Called once, when the file cannot be written any more. */
  onBroken(told: (error: InstarError) => void): void {
    this.#onBroken = told
  }

  append(records: readonly Append[]): Promise<Position[]> {
    return new Promise((resolve, reject) => {
      this.#check()
      let bytes = 0
      for (const record of records) {
        checkAppend(record)
        if (!this.#schemas.has(record.schema)) throw new InstarError('bad_record', `the log was opened without the schema ${record.schema}`, { schema: record.schema })
        bytes += record.payload.length
      }
      if (records.length === 0) return resolve([])
      this.#makeRoom(records.length, bytes)
      const batch = this.#filling
      for (const record of records) batch.frame.put(record, this.#schemas.get(record.schema)!, this.#data.counts)
      batch.bytes += bytes
      batch.calls.push({ records: records.length, resolve, reject })
      this.#schedule()
    })
  }

  commit(group: string, positions: readonly Position[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#check()
      this.#filling.commits.push({ group, positions: positions.map(({ topic, partition, offset }) => ({ topic, partition, offset })), resolve, reject })
      this.#schedule()
    })
  }

  /** Writes what waits, then gives the folder back. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#busy || this.#scheduled) await new Promise<void>((resolve) => { this.#drained = resolve })
    this.#over ??= unavailable(CLOSED)
    this.#post({ kind: 'close' })
    await this.#exited
  }

  #check(): void {
    if (this.#over ?? this.#closing) throw this.#over ?? unavailable(CLOSED)
  }

  #post(message: ToWriter): void {
    this.#worker.postMessage(message)
  }

  #makeRoom(records: number, bytes: number): void {
    const waiting = this.#filling.frame.records + this.#other.frame.records
    const waitingBytes = this.#filling.bytes + this.#other.bytes
    if (waiting > 0 && (waiting + records > this.#limits.records || waitingBytes + bytes > this.#limits.bytes)) {
      throw new InstarError('log_full', `${waiting} records (${waitingBytes} bytes) wait to be written`, { records: waiting, bytes: waitingBytes })
    }
  }

  /** Calls of one turn of the event loop go together even when the writer is idle. */
  #schedule(): void {
    if (this.#busy || this.#scheduled) return
    this.#scheduled = true
    queueMicrotask(() => {
      this.#scheduled = false
      if (this.#over === undefined) this.#send()
    })
  }

  #send(): void {
    const batch = this.#filling
    this.#filling = this.#other
    this.#other = batch
    this.#busy = true
    const { shared, records } = batch.frame
    this.#post({
      kind: 'write', frame: batch.number, records,
      ...(shared !== batch.known && { shared }),
      ...(batch.commits.length > 0 && { commits: batch.commits.map(({ group, positions }) => ({ group, positions })) }),
    })
    batch.known = shared
  }

  #answered(answer: Extract<FromWriter, { kind: 'written' | 'failed' }>): void {
    const batch = this.#other
    this.#busy = false
    const failure = answer.kind === 'written' ? undefined : answer.broken ? broken(answer.message) : unavailable(answer.message)
    const settle = takeCalls(batch, failure)
    if (failure?.code === 'log_broken') this.#break(failure)
    else if (this.#filling.calls.length > 0 || this.#filling.commits.length > 0) this.#send()
    settle()
    if (answer.kind === 'written') this.#written()
    if (!this.#busy && !this.#scheduled) this.#drained?.()
  }

  #break(reason: InstarError): void {
    const first = this.#over === undefined
    const failure = this.#over ??= reason
    this.#busy = false
    for (const batch of [this.#other, this.#filling]) takeCalls(batch, failure)()
    this.#drained?.()
    if (first && failure.code === 'log_broken') this.#onBroken(failure)
  }
}

/** Empties the batch; the function returned tells its callers. */
const takeCalls = (batch: Batch, failure: InstarError | undefined): (() => void) => {
  const { calls, commits, frame } = batch
  const positions = failure ? [] : [...frame.positions()]
  frame.clear()
  batch.bytes = 0
  batch.calls = []
  batch.commits = []
  return () => {
    let at = 0
    for (const { records, resolve, reject } of calls) {
      if (failure) reject(failure)
      else resolve(positions.slice(at, at += records))
    }
    for (const { resolve, reject } of commits) {
      if (failure) reject(failure)
      else resolve()
    }
  }
}

const CLOSED = 'the log is closed'
const unavailable = (reason: string): InstarError => new InstarError('log_unavailable', `the log cannot be written: ${reason}`)
const broken = (reason: string): InstarError => new InstarError('log_broken', `the log cannot be written any more: ${reason}`)
