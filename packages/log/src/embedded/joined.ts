/**
 * The embedded log in a second thread of the process that writes it. The second thread reads the file itself. It
 * sends appends and commits to the first thread, which answers once they are durable and notifies it of new records.
 */
import { InstarError } from '@instar/events/errors'
import { fromPlain, plainError, type PlainError } from '@instar/events/plain-error'
import type { MessagePort } from 'node:worker_threads'
import type { Append, Position } from '../port.ts'

/** What takes appends and commits: the queue before the writing thread, or the way to the thread that has it. */
export type Appender = {
  append(records: readonly Append[]): Promise<Position[]>
  commit(group: string, positions: readonly Position[]): Promise<void>
  close(): Promise<void>
}

type ToHolder =
  | { call: number; append: readonly Append[] }
  | { call: number; commit: readonly Position[]; group: string }
  /** The second thread has handled the last notification; the next may be sent. */
  | 'heard'
type FromHolder =
  | { call: number; positions: Position[] }
  | { call: number; error: PlainError }
  | { broken: PlainError }
  | 'news'

/** The first thread's side: serves one other thread until its end of the port is closed. */
export class Holder {
  readonly #port: MessagePort
  /** A notification is unhandled: the other thread will also see records committed after it. */
  #told = false
  #missed = false

  constructor(port: MessagePort, appender: Appender, onClosed: () => void) {
    this.#port = port
    port.on('message', (message: ToHolder) => {
      if (message === 'heard') this.#heard()
      else if ('append' in message) this.#answer(message.call, appender.append(message.append))
      else
        this.#answer(
          message.call,
          appender.commit(message.group, message.commit).then(() => []),
        )
    })
    port.on('close', onClosed)
  }

  /** New records were committed. At most one notification is outstanding. */
  news(): void {
    if (this.#told) {
      this.#missed = true
      return
    }
    this.#told = true
    this.#say('news')
  }

  broke(error: InstarError): void {
    this.#say({ broken: plainError(error) })
  }

  close(): void {
    this.#port.close()
  }

  #heard(): void {
    this.#told = false
    if (!this.#missed) return
    this.#missed = false
    this.news()
  }

  #answer(call: number, work: Promise<Position[]>): void {
    work.then(
      (positions) => this.#say({ call, positions }),
      (error: unknown) => this.#say({ call, error: plainError(error) }),
    )
  }

  #say(message: FromHolder): void {
    this.#port.postMessage(message)
  }
}

type AppenderListener = { onNews(): void; onBroken(error: InstarError): void }

const closed = (): InstarError => new InstarError('log_unavailable', 'the log cannot be written: it is closed')

/** The second thread's side. */
export class RemoteAppender implements Appender {
  readonly #port: MessagePort
  readonly #calls = new Map<number, PromiseWithResolvers<Position[]>>()
  #number = 0
  #closed = false

  constructor(port: MessagePort, { onNews, onBroken }: AppenderListener) {
    this.#port = port
    port.on('message', (message: FromHolder) => {
      if (message === 'news') {
        this.#say('heard')
        onNews()
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
    // Payloads of their own: a message takes the whole memory behind a view along.
    return this.#ask((call) => ({
      call,
      append: records.map((record) => ({ ...record, payload: new Uint8Array(record.payload) })),
    }))
  }

  async commit(group: string, positions: readonly Position[]): Promise<void> {
    const plain = positions.map(({ topic, partition, offset }) => ({ topic, partition, offset }))
    await this.#ask((call) => ({ call, group, commit: plain }))
  }

  /** Waits for what was asked. The holder's log stays open. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled([...this.#calls.values()].map(({ promise }) => promise))
    this.#port.close()
  }

  #ask(message: (call: number) => ToHolder): Promise<Position[]> {
    if (this.#closed) return Promise.reject(closed())
    const call = ++this.#number
    const answer = Promise.withResolvers<Position[]>()
    this.#calls.set(call, answer)
    this.#say(message(call))
    return answer.promise
  }

  #settle(message: { call: number; positions: Position[] } | { call: number; error: PlainError }): void {
    const call = this.#calls.get(message.call)
    this.#calls.delete(message.call)
    if ('error' in message) call?.reject(fromPlain(message.error))
    else call?.resolve(message.positions)
  }

  #say(message: ToHolder): void {
    this.#port.postMessage(message)
  }
}
