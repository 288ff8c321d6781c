/**
 * The embedded log in a second thread of the writing process. The second thread reads the file itself. It sends appends
 * and commits to the first thread, which responds once they are durable and notifies it of new records.
 */
import { InstarError } from '@instar/events/errors'
import { fromPlain, plainError, type PlainError } from '@instar/events/plain-error'
import type { MessagePort } from 'node:worker_threads'
import type { Append, Position } from '../port.ts'

/**
 * Accepts appends and commits: the queue of the writing thread (`WriteQueue`), or a connection to the thread with it.
 */
export type Appender = {
  append(records: readonly Append[]): Promise<Position[]>
  commit(group: string, positions: readonly Position[]): Promise<void>
  close(): Promise<void>
}

type AppenderRequest =
  | { call: number; append: readonly Append[] }
  | { call: number; commit: readonly Position[]; group: string }
  /** The second thread has handled the last notification; the next may be sent. */
  | 'notified'
type AppenderResponse =
  | { call: number; positions: Position[] }
  | { call: number; error: PlainError }
  | { broken: PlainError }
  /** New records are readable. */
  | 'changed'

/**
 * How long turns are left to gather before the other thread is told of them: each wake-up of its services costs more than a turn.
 * Who waits there for the end of the log reads it without being told.
 */
export const GATHER_MS = 50

/** The first thread's side: serves one other thread until its end of the port is closed. */
export class AppenderServer {
  readonly #port: MessagePort
  readonly #gatherMs: number
  /** Until the other thread is told of turns. */
  #gathering: NodeJS.Timeout | null = null
  /** A notification is outstanding. */
  #notifying = false
  /** What was committed since it was sent. */
  #since: 'nothing' | 'turns' | 'others' = 'nothing'

  constructor(port: MessagePort, appender: Appender, onClosed: () => void, gatherMs = GATHER_MS) {
    this.#port = port
    this.#gatherMs = gatherMs
    port.on('message', (message: AppenderRequest) => {
      if (message === 'notified') this.#notified()
      else if ('append' in message) this.#respond(message.call, appender.append(message.append))
      else
        this.#respond(
          message.call,
          appender.commit(message.group, message.commit).then(() => []),
        )
    })
    port.on('close', () => {
      this.#stopGathering()
      onClosed()
    })
  }

  /** Notifies the other thread of new records, of turns alone a little later. At most one notification is outstanding. */
  changed(what: 'turns' | 'others'): void {
    if (this.#notifying) {
      if (this.#since !== 'others') this.#since = what
    } else if (what === 'turns') this.#gathering ??= setTimeout(() => this.#notify(), this.#gatherMs).unref()
    else this.#notify()
  }

  /** Notifies the other thread that the log cannot be written any more. */
  broken(error: InstarError): void {
    this.#send({ broken: plainError(error) })
  }

  close(): void {
    this.#stopGathering()
    this.#port.close()
  }

  #notify(): void {
    this.#stopGathering()
    this.#notifying = true
    this.#send('changed')
  }

  #stopGathering(): void {
    if (this.#gathering) clearTimeout(this.#gathering)
    this.#gathering = null
  }

  #notified(): void {
    this.#notifying = false
    const since = this.#since
    this.#since = 'nothing'
    if (since !== 'nothing') this.changed(since)
  }

  #respond(call: number, work: Promise<Position[]>): void {
    work.then(
      (positions) => this.#send({ call, positions }),
      (error: unknown) => this.#send({ call, error: plainError(error) }),
    )
  }

  #send(message: AppenderResponse): void {
    this.#port.postMessage(message)
  }
}

type AppenderListener = { onChanged(): void; onBroken(error: InstarError): void }

const closed = (): InstarError => new InstarError('log_unavailable', 'the log cannot be written: it is closed')

/** The second thread's side. */
export class RemoteAppender implements Appender {
  readonly #port: MessagePort
  readonly #calls = new Map<number, PromiseWithResolvers<Position[]>>()
  #number = 0
  #closed = false

  constructor(port: MessagePort, { onChanged, onBroken }: AppenderListener) {
    this.#port = port
    port.on('message', (message: AppenderResponse) => {
      if (message === 'changed') {
        this.#send('notified')
        onChanged()
      } else if ('broken' in message) onBroken(fromPlain(message.broken))
      else this.#settle(message)
    })
    port.on('close', () => {
      this.#closed = true
      for (const call of this.#calls.values()) call.reject(closed())
      this.#calls.clear()
    })
  }

  append(records: readonly Append[]): Promise<Position[]> {
    // Copies the payloads, since a message would contain the whole buffer behind a view.
    return this.#request((call) => ({
      call,
      append: records.map((record) => ({ ...record, payload: new Uint8Array(record.payload) })),
    }))
  }

  async commit(group: string, positions: readonly Position[]): Promise<void> {
    const plain = positions.map(({ topic, partition, offset }) => ({ topic, partition, offset }))
    await this.#request((call) => ({ call, group, commit: plain }))
  }

  /** Waits for outstanding requests. The first thread's log stays open. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled([...this.#calls.values()].map(({ promise }) => promise))
    this.#port.close()
  }

  #request(message: (call: number) => AppenderRequest): Promise<Position[]> {
    if (this.#closed) return Promise.reject(closed())
    const call = ++this.#number
    const response = Promise.withResolvers<Position[]>()
    this.#calls.set(call, response)
    this.#send(message(call))
    return response.promise
  }

  #settle(message: { call: number; positions: Position[] } | { call: number; error: PlainError }): void {
    const call = this.#calls.get(message.call)
    this.#calls.delete(message.call)
    if ('error' in message) call?.reject(fromPlain(message.error))
    else call?.resolve(message.positions)
  }

  #send(message: AppenderRequest): void {
    this.#port.postMessage(message)
  }
}
