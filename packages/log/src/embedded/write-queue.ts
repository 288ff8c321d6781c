/**
 * The bounded queue of the writing thread. All calls of one turn of the event loop share a transaction and its flush to
 * disk. Calls of later turns wait until it is answered and share the next. The writer inserts records while the turn is
 * still adding others.
 */
import { InstarError } from '@instar/events/errors'
import { Worker } from 'node:worker_threads'
import type { Topic } from '@instar/events/flow'
import type { Append, Position } from '../port.ts'
import { Batch } from './batch.ts'
import { AppenderControl, controlMemory, firstOffsets } from './control.ts'
import { sizeOf } from './frame.ts'
import { Overflow, type WaitingCall } from './overflow.ts'
import type { WrittenCall } from './recent-records.ts'
import type { Failed, FromWriter, ToWriter, WriterData } from './messages.ts'

/** `records`: also of the commits that wait. `bytes`: of payloads. */
export type QueueLimits = { records: number; bytes: number }

export class WriteQueue {
  readonly #worker: Worker
  readonly #data: WriterData
  readonly #control: AppenderControl
  readonly #limits: QueueLimits
  #onWritten = (_calls: readonly WrittenCall[] | null): void => {}
  #schemas: ReadonlyMap<string, number> = new Map()
  /** The writer's batch. In state `open` calls are added to it, in state `sealed` to `#waiting`. */
  #writing = new Batch(0)
  #waiting = new Batch(1)
  /** Calls that wait for room in `#waiting`, in order. */
  readonly #overflow = new Overflow()
  #state: 'idle' | 'open' | 'sealed' = 'idle'
  #closing = false
  /** The error of all further calls, once the queue is closed or broken. */
  #failure: InstarError | undefined
  #onBroken = (_error: InstarError): void => {}
  #logLine = (_line: string): void => {}
  /** Whether the last transaction failed. */
  #failing = false
  #drained: (() => void) | undefined
  /** In the order in which they were posted. */
  readonly #cuts: PromiseWithResolvers<void>[] = []
  readonly #exited: Promise<void>

  private constructor(worker: Worker, data: WriterData, limits: QueueLimits) {
    this.#worker = worker
    this.#data = data
    this.#control = new AppenderControl(data.control)
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

  /** Resolves when the folder is locked and the file open; rejects with the writer's error. */
  static open(where: Omit<WriterData, 'control'>, limits: QueueLimits): Promise<WriteQueue> {
    const data = { ...where, control: controlMemory() }
    const worker = new Worker(new URL('./writer.ts', import.meta.url), { workerData: data, name: 'instar log' })
    const queue = new WriteQueue(worker, data, limits)
    return new Promise((resolve, reject) => {
      worker.once('error', reject)
      worker.on('message', (message: FromWriter) => {
        if (message === 'written') queue.#onAnswer()
        else if (message.kind === 'ready') resolve(queue)
        else if (message.kind === 'refused')
          void queue.#exited.then(() => reject(new InstarError(message.code, message.message, message.details)))
        else if (message.kind === 'cut') queue.#onCut(message.error)
        else queue.#onAnswer(message)
      })
    })
  }

  /** The schemas that records may have: name → id in the file. */
  setSchemas(schemas: ReadonlyMap<string, number>): void {
    this.#schemas = schemas
  }

  /** Sets the listener that is called after each transaction with the calls that it wrote; null if unknown. */
  onWritten(listener: (calls: readonly WrittenCall[] | null) => void): void {
    this.#onWritten = listener
  }

  /** Sets the receiver of a line when transactions begin to fail, and of one when they succeed again. */
  onLine(listener: (line: string) => void): void {
    this.#logLine = listener
  }

  /** Sets the listener that is called once, when the file cannot be written any more. */
  onBroken(listener: (error: InstarError) => void): void {
    this.#onBroken = listener
  }

  append(records: readonly Append[]): Promise<Position[]> {
    return new Promise((resolve, reject) => {
      this.#check()
      const { bytes, framed } = sizeOf(records, this.#schemas)
      if (records.length === 0) return resolve([])
      this.#checkRoom(records.length, bytes)
      this.#add({
        records: records.length,
        bytes,
        framed,
        addTo: (batch) => {
          const { frame } = batch
          const positions = records.map((record) =>
            frame.add(record, this.#schemas.get(record.schema)!, this.#data.counts),
          )
          batch.bytes += bytes
          batch.calls.push({ records, positions, resolve, reject })
        },
        reject,
      })
      if (this.#state === 'open') this.#control.publish(this.#writing.frame.used)
    })
  }

  commit(group: string, positions: readonly Position[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#check()
      this.#checkCommits()
      const committed = positions.map(({ topic, partition, offset }) => ({ topic, partition, offset }))
      const addTo = ({ commits }: Batch): void => void commits.push({ group, positions: committed, resolve, reject })
      this.#add({ records: 0, bytes: 0, framed: 0, addTo, reject })
    })
  }

  /** Deletes the records of the topic below the offset, in one transaction. Rejects with `log_unavailable`: nothing was deleted. */
  cut(topic: Topic, until: number): Promise<void> {
    this.#check()
    const cut = Promise.withResolvers<void>()
    this.#cuts.push(cut)
    this.#post({ kind: 'cut', topic, until })
    return cut.promise
  }

  #onCut(error: string | null): void {
    const cut = this.#cuts.shift()!
    if (error === null) cut.resolve()
    else cut.reject(unavailable(error))
  }

  #add(call: WaitingCall): void {
    const batch = this.#overflow.first ? null : this.#batchFor(call.framed)
    if (batch) call.addTo(batch)
    else this.#overflow.add(call)
  }

  /** Writes all waiting records, then closes the file and releases the lock. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#state !== 'idle')
      await new Promise<void>((resolve) => {
        this.#drained = resolve
      })
    this.#failure ??= unavailable(CLOSED)
    this.#post({ kind: 'close' })
    await this.#exited
  }

  #check(): void {
    if (this.#failure ?? this.#closing) throw this.#failure ?? unavailable(CLOSED)
  }

  #post(message: ToWriter): void {
    this.#worker.postMessage(message)
    this.#control.messagePosted()
  }

  #checkRoom(records: number, bytes: number): void {
    const waiting = this.#writing.frame.records + this.#waiting.frame.records + this.#overflow.records
    const waitingBytes = this.#writing.bytes + this.#waiting.bytes + this.#overflow.bytes
    if (waiting > 0 && (waiting + records > this.#limits.records || waitingBytes + bytes > this.#limits.bytes)) {
      throw new InstarError('log_full', `${waiting} records (${waitingBytes} bytes) are waiting to be written`, {
        records: waiting,
        bytes: waitingBytes,
      })
    }
  }

  #checkCommits(): void {
    const waiting = this.#writing.commits.length + this.#waiting.commits.length + this.#overflow.commits
    if (waiting >= this.#limits.records)
      throw new InstarError('log_full', `${waiting} commits are waiting to be written`, { commits: waiting })
  }

  /**
   * The batch for a call that needs `framed` bytes, with room for them; null if the call must wait for the next one.
   */
  #batchFor(framed: number): Batch | null {
    // The writer reads the frame of an open batch, so its memory cannot be replaced.
    if (this.#state === 'open' && !this.#writing.frame.fits(framed)) this.#seal()
    if (this.#state === 'sealed') {
      const { frame } = this.#waiting
      if (frame.used > 0 && !frame.mayReserve(framed)) return null
      frame.reserve(framed)
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
      frameIndex,
      frame: { shared },
    } = batch
    if (shared !== batch.sharedWithWriter) this.#post({ kind: 'memory', frame: frameIndex, shared })
    batch.sharedWithWriter = shared
    batch.transaction = this.#control.open(frameIndex)
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
    this.#control.seal()
    this.#state = 'sealed'
  }

  #onAnswer(failed?: Failed): void {
    const batch = this.#writing
    this.#state = 'idle'
    const failure = failed && (failed.broken ? broken(failed.message) : unavailable(failed.message))
    const settle = batch.take(failure ?? firstOffsets(this.#data.control))
    if (failure?.code === 'log_unavailable' && !this.#failing)
      this.#logLine(`${failure.message}; callers are told to retry until it can be`)
    if (!failure && this.#failing) this.#logLine('the log can be written again')
    this.#failing = failure !== undefined
    if (failure?.code === 'log_broken') this.#break(failure)
    else if (!this.#waiting.empty) {
      this.#open()
      this.#control.publish(this.#writing.frame.used)
      this.#seal()
      this.#addWaiting()
    }
    const writtenCalls = settle()
    this.#onWritten(failed ? null : writtenCalls)
    if (this.#state === 'idle') this.#drained?.()
  }

  /** Adds the calls that have waited to the next batch, while there is room. The first always has room. */
  #addWaiting(): void {
    for (let call = this.#overflow.first; call; call = this.#overflow.first) {
      const batch = this.#batchFor(call.framed)
      if (batch === null) break
      this.#overflow.shift()
      call.addTo(batch)
    }
  }

  #break(reason: InstarError): void {
    const first = this.#failure === undefined
    const failure = (this.#failure ??= reason)
    this.#state = 'idle'
    for (const batch of [this.#writing, this.#waiting]) batch.take(failure)()
    for (let call = this.#overflow.shift(); call; call = this.#overflow.shift()) call.reject(failure)
    for (const cut of this.#cuts.splice(0)) cut.reject(failure)
    this.#drained?.()
    if (first && failure.code === 'log_broken') this.#onBroken(failure)
  }
}

const CLOSED = 'the log is closed'
const unavailable = (reason: string): InstarError =>
  new InstarError('log_unavailable', `the log cannot be written: ${reason}`)
const broken = (reason: string): InstarError =>
  new InstarError('log_broken', `the log cannot be written any more: ${reason}`)
