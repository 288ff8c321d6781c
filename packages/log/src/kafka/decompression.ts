/** Decompression of fetched batches with gzip and zstd, within a limit of bytes for each fetch. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { promisify } from 'node:util'
import { gunzip, zstdDecompressSync } from 'node:zlib'

/**
 * Maximum bytes of a decompressed batch, and of all those of one fetch: eight times the largest batch that the log's
 * topics accept. Instar does not compress; text of a program that copies the log shrinks to about a fifth.
 */
export const MAX_DECOMPRESSED_BYTES = 64 << 20

/** A single batch has more than `MAX_DECOMPRESSED_BYTES`. A retry cannot succeed. */
export class BatchTooLarge extends Error {
  constructor() {
    super(`a batch has more than ${MAX_DECOMPRESSED_BYTES} bytes after decompression`)
  }
}

/**
 * kafkajs drops the rest of a partition's batches after an error of this name, as after a batch that is cut off by the
 * fetch's limit; the next fetch starts with it.
 */
class RestOfFetch extends Error {
  override readonly name = 'KafkaJSPartialMessageError'
}

/** `left`: the bytes that the batches of a fetch may still have. */
const budget = new AsyncLocalStorage<{ left: number }>()

/** Runs a fetch. Its compressed batches beyond the limit are left to the next fetch. */
export const withDecompressionLimit = <T>(fetch: () => Promise<T>): Promise<T> =>
  budget.run({ left: MAX_DECOMPRESSED_BYTES }, fetch)

const limited = async (unpack: (maxOutputLength: number) => Buffer | Promise<Buffer>): Promise<Buffer> => {
  const ofFetch = budget.getStore() ?? { left: MAX_DECOMPRESSED_BYTES }
  const first = ofFetch.left === MAX_DECOMPRESSED_BYTES
  if (ofFetch.left === 0) throw new RestOfFetch()
  try {
    const unpacked = await unpack(ofFetch.left)
    ofFetch.left -= unpacked.length
    return unpacked
  } catch (cause) {
    if (!(cause instanceof RangeError && 'code' in cause && cause.code === 'ERR_BUFFER_TOO_LARGE')) throw cause
    ofFetch.left = first ? ofFetch.left : 0
    throw first ? new BatchTooLarge() : new RestOfFetch()
  }
}

const gunzipAsync = promisify(gunzip)

/** In the form of kafkajs's codecs. Reject with `BatchTooLarge`. */
export const gzipCodec = {
  decompress: (packed: Buffer): Promise<Buffer> =>
    limited((maxOutputLength) => gunzipAsync(packed, { maxOutputLength })),
}
export const zstdCodec = {
  decompress: (packed: Buffer): Promise<Buffer> =>
    limited((maxOutputLength) => zstdDecompressSync(packed, { maxOutputLength })),
}
