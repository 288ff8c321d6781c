/**
 * One HTTP response as it is received: `head`, then the body by iteration, with a time limit for each wait and, where it
 * is not an answer in pieces, one for the whole.
 */
import type { Dispatcher } from 'undici'
import type { Hold } from '../port.ts'
import { Held } from './held.ts'

type Head = { status: number; headers: Readonly<Record<string, string | string[] | undefined>> }

type Limit = 'first_byte' | 'idle' | 'whole'

/**
 * `wholeMs`: from the request to the end of the response, however it is cut into chunks; null: no limit.
 * `refusalMs`: from the head to the end of a response whose status is not 200. `timeoutError` creates the error for a
 * limit that passed. `hold` counts what waits to be read; its error ends the response. `faultOf` creates the error for a failed connection; `connected`: the request had been sent.
 */
type StreamedResponseOptions = {
  firstByteMs: number
  idleMs: number
  wholeMs: number | null
  refusalMs: number
  signal: AbortSignal | undefined
  hold?: Hold | undefined
  timeoutError: (limit: Limit) => Error
  faultOf: (error: Error, connected: boolean) => Error
}

/** Reading from the connection is paused while more than this is buffered. */
const MAX_BUFFERED_BYTES = 1 << 20

export class StreamedResponse implements Dispatcher.DispatchHandler, AsyncIterableIterator<Uint8Array> {
  readonly head = Promise.withResolvers<Head>()
  readonly #options: StreamedResponseOptions
  #controller: Dispatcher.DispatchController | null = null
  #connected = false
  /** Null from the first byte of the body until the reader waits for more: most answers that are not streamed have come by then. */
  #timer: NodeJS.Timeout | null
  #wholeTimer: NodeJS.Timeout | null = null
  /** Whether the reader waits for data. The time limits apply only then. */
  #waiting = true
  #bodyStarted = false
  #chunks: Uint8Array[] = []
  #bytes = 0
  readonly #held: Held
  #ended = false
  #draining = false
  #error: Error | null = null
  #next: PromiseWithResolvers<IteratorResult<Uint8Array>> | null = null

  constructor(options: StreamedResponseOptions) {
    this.#options = options
    this.#held = new Held(options.hold)
    this.#timer = setTimeout(() => this.#onTimeout(), options.firstByteMs)
    if (options.wholeMs !== null) this.#limitWhole(options.wholeMs)
    options.signal?.addEventListener('abort', this.#onAbort, { once: true })
    if (options.signal?.aborted) this.#onAbort()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    this.#connected = true
    if (this.#error) controller.abort(this.#error)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Head['headers']): void {
    if (status < 200) return
    this.#waiting = this.#next !== null
    if (status !== 200 && this.#wholeTimer === null) this.#limitWhole(this.#options.refusalMs)
    this.head.resolve({ status, headers })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#draining) return
    if (!this.#bodyStarted) {
      this.#bodyStarted = true
      this.#clear()
    }
    if (this.#next) return this.#deliver({ done: false, value: chunk })
    try {
      this.#held.set(this.#bytes + chunk.length)
    } catch (error) {
      return this.#abort(error as Error)
    }
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes > MAX_BUFFERED_BYTES) controller.pause()
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#release()
    if (this.#next) this.#deliver({ done: true, value: undefined })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#options.faultOf(error, this.#connected))
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const value = this.#chunks.shift()
    if (value) {
      this.#bytes -= value.length
      this.#held.set(this.#bytes)
      if (this.#controller?.paused && this.#bytes <= MAX_BUFFERED_BYTES) this.#controller.resume()
      return Promise.resolve({ done: false, value })
    }
    if (this.#error) return Promise.reject(this.#error)
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    this.#waiting = true
    // The limit for the first byte is measured from the request.
    if (this.#bodyStarted) this.#limitSilence()
    this.#next = Promise.withResolvers()
    return this.#next.promise
  }

  /** Cancels the rest of the response. */
  return(): Promise<IteratorResult<Uint8Array>> {
    if (this.#ended) this.#forget()
    else this.#abort(new Error('the reader has cancelled the response'))
    return Promise.resolve({ done: true, value: undefined })
  }

  /** Drops the rest, which nothing reads, so that the connection can be reused; cancels it after `ms`. */
  drain(ms: number): void {
    if (this.#ended || this.#error) return
    this.#draining = true
    this.#forget()
    this.#waiting = true
    this.#clear()
    this.#timer = setTimeout(() => this.#onTimeout(), ms).unref()
    if (this.#controller?.paused) this.#controller.resume()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #deliver(result: IteratorResult<Uint8Array>): void {
    this.#waiting = false
    this.#next?.resolve(result)
    this.#next = null
  }

  readonly #onAbort = (): void => {
    const reason: unknown = this.#options.signal?.reason
    this.#abort(reason instanceof Error ? reason : new Error('the request was aborted'))
  }

  #onTimeout(): void {
    if (this.#waiting) this.#abort(this.#options.timeoutError(this.#bodyStarted ? 'idle' : 'first_byte'))
    else if (!this.#ended) this.#timer?.refresh()
  }

  #limitSilence(): void {
    if (this.#timer) this.#timer.refresh()
    else this.#timer = setTimeout(() => this.#onTimeout(), this.#options.idleMs)
  }

  #clear(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  #limitWhole(ms: number): void {
    this.#wholeTimer = setTimeout(() => this.#abort(this.#options.timeoutError('whole')), ms)
  }

  #abort(error: Error): void {
    this.#fail(error)
    this.#controller?.abort(error)
  }

  /** Errors after the first one or after the end are ignored. */
  #fail(error: Error): void {
    if (this.#error || this.#ended) return
    this.#error = error
    this.#forget()
    this.#release()
    this.head.reject(error)
    this.#next?.reject(error)
    this.#next = null
  }

  #forget(): void {
    this.#chunks = []
    this.#bytes = 0
    this.#held.set(0)
  }

  #release(): void {
    this.#clear()
    if (this.#wholeTimer) clearTimeout(this.#wholeTimer)
    this.#options.signal?.removeEventListener('abort', this.#onAbort)
  }
}
