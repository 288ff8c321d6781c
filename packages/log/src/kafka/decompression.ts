/** Decompression of batches with gzip and zstd, within a limit of bytes. */
import { promisify } from 'node:util'
import { gunzip, zstdDecompressSync } from 'node:zlib'

/** Kafka's codecs by the lowest three bits of a batch's attributes. */
const CODECS = ['none', 'gzip', 'Snappy', 'LZ4', 'zstd', 'codec 5', 'codec 6', 'codec 7'] as const

/** The name of a batch's codec. */
export const codecOf = (attributes: number): string => CODECS[attributes & 7]!

const gunzipAsync = promisify(gunzip)

type Unpack = (packed: Buffer, options: { maxOutputLength: number }) => Buffer | Promise<Buffer>
const UNPACK: Readonly<Record<string, Unpack>> = { gzip: gunzipAsync, zstd: zstdDecompressSync }

export type Unpacked = { bytes: Buffer } | 'unsupported' | 'too large' | 'damaged'

/** Decompresses a batch's records to at most `most` bytes, which must not be 0. */
export const decompress = async (codec: string, packed: Buffer, most: number): Promise<Unpacked> => {
  const unpack = UNPACK[codec]
  if (!unpack) return 'unsupported'
  try {
    return { bytes: await unpack(packed, { maxOutputLength: most }) }
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
    if (code === 'ERR_BUFFER_TOO_LARGE') return 'too large'
    if (code.startsWith('Z_') || code.startsWith('ZSTD_')) return 'damaged'
    throw cause
  }
}
