/** A queue of generated pieces with one reader, which uses it as an async iterator. */
import type { InstarError } from '@instar/events/errors'
import type { GeneratedPiece } from '@instar/engine/port'

export class PieceQueue implements AsyncIterableIterator<GeneratedPiece> {
  private readonly queued: GeneratedPiece[] = []
  private readers: { resolve(result: IteratorResult<GeneratedPiece>): void; reject(error: InstarError): void }[] = []
  private error: InstarError | null = null
  private ended = false
  private readonly onReturn: () => void

  /** `onReturn` is called when the reader stops before the end. */
  constructor(onReturn: () => void) {
    this.onReturn = onReturn
  }

  push(piece: GeneratedPiece): void {
    if (this.ended) return
    const reader = this.readers.shift()
    if (reader) reader.resolve({ done: false, value: piece })
    else this.queued.push(piece)
  }

  end(): void {
    this.ended = true
    for (const reader of this.readers.splice(0)) reader.resolve({ done: true, value: undefined })
  }

  /** Ends the queue with an error, which the reader gets after the queued pieces. */
  fail(error: InstarError): void {
    if (this.ended) return
    this.ended = true
    const [first, ...others] = this.readers.splice(0)
    if (first) first.reject(error)
    else this.error = error
    for (const reader of others) reader.resolve({ done: true, value: undefined })
  }

  next(): Promise<IteratorResult<GeneratedPiece>> {
    const piece = this.queued.shift()
    if (piece) return Promise.resolve({ done: false, value: piece })
    const { error } = this
    if (error) {
      this.error = null
      return Promise.reject(error)
    }
    if (this.ended) return Promise.resolve({ done: true, value: undefined })
    return new Promise((resolve, reject) => this.readers.push({ resolve, reject }))
  }

  return(): Promise<IteratorResult<GeneratedPiece>> {
    if (!this.ended) this.onReturn()
    this.error = null
    this.queued.length = 0
    this.end()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
