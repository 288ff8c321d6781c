/** One HTTP answer as it arrives: `head`, then its bytes by iteration, with a time limit for each wait. */
import type { Dispatcher } from 'undici'

type Head = { status: number; headers: Readonly<Record<string, string | string[] | undefined>> }

/** `late` makes the error of a limit that passed; `began`: part of the body had arrived. */
type StreamedResponseOptions = {
  firstByteMs: number
  idleMs: number
  signal: AbortSignal | undefined
  late: (began: boolean) => Error
  faultOf: (error: Error, connected: boolean) => Error
}

/** The connection is paused while more than this is buffered. */
const BUFFERED_BYTES_MAX = 1 << 20

export class StreamedResponse implements Dispatcher.DispatchHandler, AsyncIterableIterator<Uint8Array> {
  readonly head = Promise.withResolvers<Head>()
  readonly #options: StreamedResponseOptions
  #controller: Dispatcher.DispatchController | null = null
  #connected = false
  #timer: NodeJS.Timeout
  /** The reader waits for data: only then does the limit apply. */
  #waiting = true
  #began = false
  #chunks: Uint8Array[] = []
  #bytes = 0
  #ended = false
  #error: Error | null = null
  #next: PromiseWithResolvers<IteratorResult<Uint8Array>> | null = null

  constructor(options: StreamedResponseOptions) {
    this.#options = options
    this.#timer = setTimeout(() => this.#late(), options.firstByteMs)
    options.signal?.addEventListener('abort', this.#given, { once: true })
    if (options.signal?.aborted) this.#given()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    this.#connected = true
    if (this.#error) controller.abort(this.#error)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Head['headers']): void {
    if (status < 200) return
    this.#waiting = this.#next !== null
    this.head.resolve({ status, headers })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (!this.#began) {
      this.#began = true
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#late(), this.#options.idleMs)
    }
    if (this.#next) return this.#give({ done: false, value: chunk })
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes > BUFFERED_BYTES_MAX) controller.pause()
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#release()
    if (this.#next) this.#give({ done: true, value: undefined })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#options.faultOf(error, this.#connected))
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const value = this.#chunks.shift()
    if (value) {
      this.#bytes -= value.length
      if (this.#controller?.paused && this.#bytes <= BUFFERED_BYTES_MAX) this.#controller.resume()
      return Promise.resolve({ done: false, value })
    }
    if (this.#error) return Promise.reject(this.#error)
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    this.#waiting = true
    // The limit for the first byte counts from the request.
    if (this.#began) this.#timer.refresh()
    this.#next = Promise.withResolvers()
    return this.#next.promise
  }

  /** The reader stops: the rest of the answer is cancelled. */
  return(): Promise<IteratorResult<Uint8Array>> {
    if (!this.#ended) this.#stop(new Error('the answer was given up'))
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #give(result: IteratorResult<Uint8Array>): void {
    this.#waiting = false
    this.#next?.resolve(result)
    this.#next = null
  }

  readonly #given = (): void => {
    const reason: unknown = this.#options.signal?.reason
    this.#stop(reason instanceof Error ? reason : new Error('the request was given up'))
  }

  #late(): void {
    if (this.#waiting) this.#stop(this.#options.late(this.#began))
    else if (!this.#ended) this.#timer.refresh()
  }

  #stop(error: Error): void {
    this.#fail(error)
    this.#controller?.abort(error)
  }

  /** Later errors are ignored. */
  #fail(error: Error): void {
    if (this.#error || this.#ended) return
    this.#error = error
    this.#chunks = []
    this.#release()
    this.head.reject(error)
    this.#next?.reject(error)
    this.#next = null
  }

  #release(): void {
    clearTimeout(this.#timer)
    this.#options.signal?.removeEventListener('abort', this.#given)
  }
}
