/** Decodes compressed request bodies. */
import { InstarError } from '@instar/events'
import type { RequestPayload } from 'fastify'
import { PassThrough, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
])

const KIB = 1024
/** The most that a decoder keeps of what it decoded, in bytes. It is allocated as it fills. */
const WINDOWS: Readonly<Record<string, number>> = { br: 16 * KIB * KIB, zstd: 128 * KIB * KIB, identity: 0 }
export const windowOf = (encoding: string): number => WINDOWS[encoding.toLowerCase()] ?? 32 * KIB

/**
 * The decoded body; limits apply to the decoded size. `count` is called with the size of each chunk.
 */
export const decoded = (payload: RequestPayload, encoding: string, count: (bytes: number) => void): RequestPayload => {
  const name = encoding.toLowerCase()
  const decoder = name === 'identity' ? new PassThrough() : DECODERS.get(name)?.()
  if (!decoder)
    throw new InstarError(
      'bad_request',
      `The body is encoded as ${encoding.slice(0, 40)}; send it as it is, or as ${[...DECODERS.keys()].join(', ')}.`,
      { field: 'content-encoding' },
    )
  const body = Object.assign(
    new Transform({
      transform: (piece: Buffer, _, done) => {
        count(piece.length)
        done(null, piece)
      },
    }),
    { receivedEncodedLength: 0 },
  )
  payload.on('data', (piece: Buffer) => {
    body.receivedEncodedLength += piece.length
  })
  decoder.on('error', (cause) =>
    body.destroy(
      new InstarError(
        'bad_request',
        `The body is not what its encoding ${encoding.slice(0, 40)} says.`,
        { field: 'content-encoding' },
        { cause },
      ),
    ),
  )
  payload.once('error', (cause) => body.destroy(cause))
  // A request that was refused before its body was read has no other error listener.
  body.on('error', () => payload.unpipe(decoder))
  body.once('close', () => {
    payload.unpipe(decoder)
    decoder.destroy()
    payload.resume()
  })
  payload.pipe(decoder).pipe(body)
  return body
}
