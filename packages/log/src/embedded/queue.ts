/**
 * The bounded queue in front of the writing thread. All calls of one turn of the event loop share one transaction,
 * and one flush; those of later turns wait until it is answered and share the next. The writer inserts the records
 * of a turn while the turn still puts them.
 */
import { InstarError } from '@instar/events/errors'
import { Worker } from 'node:worker_threads'
import type { Append, Position } from '../port.ts'
import { checkAppend } from '../record.ts'
import { Batch } from './batch.ts'
import { AppenderControl, controlMemory, firstOffsets } from './control.ts'
import { framedBytes } from './frame.ts'
import type { Written } from './latest.ts'
import type { Failed, FromWriter, ToWriter, WriterData } from './messages.ts'

export type QueueLimits = { records: number; bytes: number }

export class Queue {
  readonly #worker: Worker
  readonly #data: WriterData
  readonly #caller: AppenderControl
  readonly #limits: QueueLimits
  #written = (_what: readonly Written[] | null): void => {}
  #schemas: ReadonlyMap<string, number> = new Map()
  /** What the writer has. `open`: calls still join it. `sealed`: they join `#waiting`. */
  #writing = new Batch(0)
  #waiting = new Batch(1)
  #state: 'idle' | 'open' | 'sealed' = 'idle'
  #closing = false
  /** Why nothing can be written any more. */
  #over: InstarError | undefined
  #onBroken = (_error: InstarError): void => {}
  #drained: (() => void) | undefined
  readonly #exited: Promise<void>

  private constructor(worker: Worker, data: WriterData, limits: QueueLimits) {
    this.#worker = worker
    this.#data = data
    this.#caller = new AppenderControl(data.control)
    this.#limits = limits
    const exited = Promise.withResolvers<void>()
    this.#exited = exited.promise
    worker.on('error', (cause) =>
      this.#break(broken(`the writing thread failed: ${cause instanceof Error ? cause.message : String(cause)}`)),
    )
    worker.on('exit', () => {
      this.#break(this.#closing ? unavailable(CLOSED) : broken('the writing thread ended'))
      exited.resolve()
    })
  }

  /** Resolves when the folder is held and its file open; rejects with the writer's reason. */
  static open(where: Omit<WriterData, 'control'>, limits: QueueLimits): Promise<Queue> {
    const data = { ...where, control: controlMemory() }
    const worker = new Worker(new URL('./writer.ts', import.meta.url), { workerData: data, name: 'instar log' })
    const queue = new Queue(worker, data, limits)
    return new Promise((resolve, reject) => {
      worker.once('error', reject)
      worker.on('message', (message: FromWriter) => {
        if (message === 'written') queue.#answered()
        else if (message.kind === 'ready') resolve(queue)
        else if (message.kind === 'refused')
          void queue.#exited.then(() => reject(new InstarError(message.code, message.message, message.details)))
        else queue.#answered(message)
      })
    })
  }

  /** Names and numbers of the schemas that a record may have. */
  knowSchemas(schemas: ReadonlyMap<string, number>): void {
    this.#schemas = schemas
  }

  /** Called after each transaction with what it wrote; null where that is not known. */
  onWritten(written: (what: readonly Written[] | null) => void): void {
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
      let framed = 0
      for (const record of records) {
        checkAppend(record)
        if (!this.#schemas.has(record.schema))
          throw new InstarError('bad_record', `the log was opened without the schema ${record.schema}`, {
            schema: record.schema,
          })
        bytes += record.payload.length
        framed += framedBytes(record)
      }
      if (records.length === 0) return resolve([])
      this.#makeRoom(records.length, bytes)
      const batch = this.#joined(framed)
      const { frame } = batch
      const positions = records.map((record) => frame.put(record, this.#schemas.get(record.schema)!, this.#data.counts))
      batch.bytes += bytes
      batch.calls.push({ records, positions, resolve, reject })
      if (this.#state === 'open') this.#caller.publish(frame.used)
    })
  }

  commit(group: string, positions: readonly Position[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#check()
      this.#joined(0).commits.push({
        group,
        positions: positions.map(({ topic, partition, offset }) => ({ topic, partition, offset })),
        resolve,
        reject,
      })
    })
  }

  /** Writes what waits, then gives the folder back. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#state !== 'idle')
      await new Promise<void>((resolve) => {
        this.#drained = resolve
      })
    this.#over ??= unavailable(CLOSED)
    this.#post({ kind: 'close' })
    await this.#exited
  }

  #check(): void {
    if (this.#over ?? this.#closing) throw this.#over ?? unavailable(CLOSED)
  }

  #post(letter: ToWriter): void {
    this.#worker.postMessage(letter)
    this.#caller.letter()
  }

  #makeRoom(records: number, bytes: number): void {
    const waiting = this.#writing.frame.records + this.#waiting.frame.records
    const waitingBytes = this.#writing.bytes + this.#waiting.bytes
    if (waiting > 0 && (waiting + records > this.#limits.records || waitingBytes + bytes > this.#limits.bytes)) {
      throw new InstarError('log_full', `${waiting} records (${waitingBytes} bytes) wait to be written`, {
        records: waiting,
        bytes: waitingBytes,
      })
    }
  }

  /** The batch that a call joins, with room for it. */
  #joined(framed: number): Batch {
    // The writer reads the frame of an open batch: other memory cannot take its place.
    if (this.#state === 'open' && !this.#writing.frame.fits(framed)) this.#seal()
    if (this.#state === 'sealed') {
      this.#waiting.frame.reserve(framed)
      return this.#waiting
    }
    if (this.#state === 'idle') {
      this.#waiting.frame.reserve(framed)
      this.#open()
      queueMicrotask(() => {
        if (this.#state === 'open') this.#seal()
      })
    }
    return this.#writing
  }

  #open(): void {
    const batch = this.#waiting
    this.#waiting = this.#writing
    this.#writing = batch
    const {
      number,
      frame: { shared },
    } = batch
    if (shared !== batch.known) this.#post({ kind: 'memory', frame: number, shared })
    batch.known = shared
    batch.transaction = this.#caller.open(number)
    this.#state = 'open'
  }

  #seal(): void {
    const { transaction, commits } = this.#writing
    if (commits.length > 0)
      this.#post({
        kind: 'commits',
        transaction,
        commits: commits.map(({ group, positions }) => ({ group, positions })),
      })
    this.#caller.seal()
    this.#state = 'sealed'
  }

  #answered(failed?: Failed): void {
    const batch = this.#writing
    this.#state = 'idle'
    const failure = failed && (failed.broken ? broken(failed.message) : unavailable(failed.message))
    const settle = batch.take(failure ?? firstOffsets(this.#data.control))
    if (failure?.code === 'log_broken') this.#break(failure)
    else if (!this.#waiting.empty) {
      this.#open()
      this.#caller.publish(this.#writing.frame.used)
      this.#seal()
    }
    const written = settle()
    this.#written(failed ? null : written)
    if (this.#state === 'idle') this.#drained?.()
  }

  #break(reason: InstarError): void {
    const first = this.#over === undefined
    const failure = (this.#over ??= reason)
    this.#state = 'idle'
    for (const batch of [this.#writing, this.#waiting]) batch.take(failure)()
    this.#drained?.()
    if (first && failure.code === 'log_broken') this.#onBroken(failure)
  }
}

const CLOSED = 'the log is closed'
const unavailable = (reason: string): InstarError =>
  new InstarError('log_unavailable', `the log cannot be written: ${reason}`)
const broken = (reason: string): InstarError =>
  new InstarError('log_broken', `the log cannot be written any more: ${reason}`)
