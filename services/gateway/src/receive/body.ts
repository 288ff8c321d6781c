/** Reads request bodies into buffers. */
import { InstarError } from '@instar/events'
import type { RequestPayload } from 'fastify'
import type { Holding } from './body-memory.ts'

/**
 * `contentLength`: NaN if the header is absent. `encoded`: the body has a content encoding or a transfer encoding, so
 * that its length is not known. `limit`: in bytes. `window`: bytes that a decoder keeps of what it decoded.
 */
type Expected = { contentLength: number; encoded: boolean; limit: number; window?: number }

/**
 * `holding` is charged for the buffer, which grows as the body arrives. Throws `body_too_large`, `bad_request` and
 * `overloaded`. After an error the rest of the body is not read here.
 */
export const readBody = (
  payload: RequestPayload,
  { contentLength, encoded, limit, window = 0 }: Expected,
  holding: Holding,
): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    if (contentLength > limit) throw tooLarge(limit)
    const length = encoded || Number.isNaN(contentLength) ? null : contentLength
    const occupy = (bytes: number): void => holding.hold(bytes + Math.min(bytes, window) - holding.held)
    let body: Collected | null = new Collected(length, limit, occupy)
    // An idle connection holds its last request, whose listeners would hold the body.
    const settle = (work: (body: Collected) => void): void => {
      payload.off('data', onData).off('end', onEnd).off('error', onError)
      const collected = body
      body = null
      try {
        if (collected) work(collected)
      } catch (error) {
        reject(error as Error)
      }
    }
    const fail = (error: Error): void => settle(() => reject(error))
    const onData = (piece: Buffer): void => {
      try {
        if (length === null && (payload.receivedEncodedLength ?? 0) > limit) throw tooLarge(limit)
        body?.take(piece)
      } catch (error) {
        fail(error as Error)
      }
    }
    const onEnd = (): void =>
      settle((collected) => {
        const whole = collected.whole()
        holding.arrived(whole.length)
        resolve(whole)
      })
    // The connection failed, or the body cannot be decoded.
    const onError = (error: Error): void => fail(error instanceof InstarError ? error : cutOff(error))
    holding.arriving(fail)
    payload.on('data', onData).on('end', onEnd).on('error', onError).resume()
  })

const FIRST_BYTES = 16 * 1024

/**
 * Copies pieces into one buffer, which doubles up to the body's length: a piece of one byte would occupy some hundred,
 * and a buffer of the announced length memory that nothing may come to fill.
 */
class Collected {
  private readonly length: number | null
  private readonly limit: number
  private readonly occupy: (bytes: number) => void
  private buffer = Buffer.alloc(0)
  private read = 0

  /** `length`: null if it is not known. `occupy` is called with the buffer's size before it grows. */
  constructor(length: number | null, limit: number, occupy: (bytes: number) => void) {
    this.length = length
    this.limit = limit
    this.occupy = occupy
  }

  take(piece: Buffer): void {
    const read = this.read + piece.length
    if (this.length !== null && read > this.length) throw wrongLength(this.length)
    if (read > this.limit) throw tooLarge(this.limit)
    if (read > this.buffer.length) {
      const size = Math.min(this.length ?? this.limit, Math.max(read, 2 * this.buffer.length, FIRST_BYTES))
      this.occupy(size)
      const grown = Buffer.allocUnsafe(size)
      this.buffer.copy(grown, 0, 0, this.read)
      this.buffer = grown
    }
    piece.copy(this.buffer, this.read)
    this.read = read
  }

  whole(): Buffer {
    if (this.length !== null && this.read !== this.length) throw wrongLength(this.length)
    return this.read === this.buffer.length ? this.buffer : Buffer.from(this.buffer.subarray(0, this.read))
  }
}

const tooLarge = (limit: number): InstarError =>
  new InstarError('body_too_large', `The request body is larger than ${limit} bytes.`, { limit })

const wrongLength = (length: number): InstarError =>
  new InstarError('bad_request', `The body is not of the ${length} bytes that its Content-Length says.`, {
    field: 'content-length',
  })

const cutOff = (cause: Error): InstarError =>
  new InstarError('bad_request', 'The request body did not arrive in full.', {}, { cause })
