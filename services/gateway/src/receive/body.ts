/** Reads request bodies into buffers. */
import { InstarError } from '@instar/events'
import type { RequestPayload } from 'fastify'

/** After `graceMs` a body must be as far as at a rate at which it arrives in `wholeMs`. */
type Pace = { graceMs: number; wholeMs: number }
type Expected = { contentLength: number; encoded: boolean; limit: number; pace?: Pace }

/** 32 MiB in two minutes are 280 KB/s. */
const PACE: Pace = { graceMs: 5_000, wholeMs: 120_000 }

/** Takes the pieces of a body in order; `whole` is called after the last. Both throw the client's error. */
type Collector = { take(piece: Buffer): void; whole(): Buffer }

/**
 * `contentLength`: NaN if the header is absent. `encoded`: the body has a content encoding or a transfer encoding, so
 * that its length is not known. `limit`: in bytes. `pace`: how fast a body of known length, whose memory is reserved, has
 * to arrive. Throws `body_too_large`, `bad_request` and `request_timeout`. After an error the rest of the body is not read
 * here.
 */
export const readBody = (
  payload: RequestPayload,
  { contentLength, encoded, limit, pace = PACE }: Expected,
): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    if (contentLength > limit) throw tooLarge(limit)
    const known = !encoded && !Number.isNaN(contentLength)
    const body = known ? ofLength(contentLength) : joined(payload, limit)
    let read = 0
    const begun = performance.now()
    const look = (): void => {
      const late = performance.now() - begun - pace.graceMs
      if (late > 0 && read < (contentLength * late) / pace.wholeMs) settle(() => reject(tooSlow(contentLength, pace)))
    }
    const timer = known && contentLength > 0 ? setInterval(look, pace.graceMs / 5).unref() : null
    // An idle connection holds its last request, whose listeners would hold the body.
    const settle = (work: () => void): void => {
      if (timer) clearInterval(timer)
      payload.off('data', onData).off('end', onEnd).off('error', onError)
      try {
        work()
      } catch (error) {
        reject(error as Error)
      }
    }
    const onData = (piece: Buffer): void => {
      try {
        read += piece.length
        body.take(piece)
      } catch (error) {
        settle(() => reject(error as Error))
      }
    }
    const onEnd = (): void => settle(() => resolve(body.whole()))
    // The connection failed, or the body cannot be decoded.
    const onError = (error: Error): void => settle(() => reject(error instanceof InstarError ? error : cutOff(error)))
    payload.on('data', onData).on('end', onEnd).on('error', onError).resume()
  })

/** Copies pieces into one buffer as they arrive, so that a body is in memory once. */
const ofLength = (length: number): Collector => {
  const body = Buffer.allocUnsafe(length)
  let read = 0
  return {
    take(piece) {
      if (read + piece.length > length) throw wrongLength(length)
      read += piece.copy(body, read)
    },
    whole() {
      if (read !== length) throw wrongLength(length)
      return body
    },
  }
}

const joined = (payload: RequestPayload, limit: number): Collector => {
  const pieces: Buffer[] = []
  let read = 0
  return {
    take(piece) {
      read += piece.length
      if (read > limit || (payload.receivedEncodedLength ?? 0) > limit) throw tooLarge(limit)
      pieces.push(piece)
    },
    whole: () => Buffer.concat(pieces, read),
  }
}

const tooLarge = (limit: number): InstarError =>
  new InstarError('body_too_large', `The request body is larger than ${limit} bytes.`, { limit })

const wrongLength = (length: number): InstarError =>
  new InstarError('bad_request', `The body is not of the ${length} bytes that its Content-Length says.`, {
    field: 'content-length',
  })

const tooSlow = (length: number, { wholeMs }: Pace): InstarError =>
  new InstarError(
    'request_timeout',
    `The request body arrived too slowly: one of ${length} bytes must arrive within ${wholeMs / 1000} s.`,
    {},
  )

const cutOff = (cause: Error): InstarError =>
  new InstarError('bad_request', 'The request body did not arrive in full.', {}, { cause })
