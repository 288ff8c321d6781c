/**
 * Blobs on the log: chunks of at most 512 KiB with the blob's SHA-256 as key, appended before the record that refers to
 * the blob. Chunks have the timestamp of that record, so a search starts there.
 */
import { contentSha, decodeReadable, encodeRecord, InstarError, type Versions } from '@instar/events'
import { persist } from './persist.ts'
import type { EventLog } from './port.ts'
import { versionsOn } from './upgrades.ts'

export const CHUNK_BYTES = 512 * 1024
/** Maximum difference between the time of the referring record and that of the chunks: the allowed clock skew. */
const CLOCK_SKEW_MS = 10 * 60_000
/** Bytes per fetch: small, since a batch of the writer is returned whole and usually contains one chunk. */
const READ_BYTES = 32 * 1024

const NEVER = new AbortController().signal

/**
 * Appends a blob and resolves with its SHA-256 when it is durable. Retries while the log is unavailable. Idempotent.
 * `at`: milliseconds since 1970, the time of the referring record.
 */
export const putBlob = async (
  log: EventLog,
  bytes: Uint8Array,
  at: number,
  signal: AbortSignal = NEVER,
): Promise<string> => {
  const sha256 = contentSha(bytes)
  for (const chunk of blobChunks(bytes, sha256, at, versionsOn(log))) await persist(log, [chunk], signal)
  return sha256
}

/** The chunk records of a blob. */
export const blobChunks = function* (
  bytes: Uint8Array,
  sha256: string,
  at: number,
  versions: Versions,
): Generator<ReturnType<typeof encodeRecord>> {
  const count = Math.max(1, Math.ceil(bytes.length / CHUNK_BYTES))
  for (let index = 0; index < count; index += 1) {
    yield encodeRecord(
      {
        type: 'BlobChunk',
        sha256,
        index,
        count,
        bytes: bytes.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
        at,
      },
      versions,
    )
  }
}

/**
 * Reads a blob. Chunks with wrong bytes do not hide valid ones. `at`: the time passed to `putBlob`. Searches from ten
 * minutes before `at` to the end of the log as of this call; throws `missing_blob` if the blob is not there.
 */
export const getBlob = async (log: EventLog, sha256: string, at: number): Promise<Uint8Array> => {
  const found =
    (await search(log, sha256, at)) ?? (at > 0 ? await search(log, sha256, Math.max(0, at - CLOCK_SKEW_MS)) : null)
  if (found) return found
  throw new InstarError('missing_blob', `the log does not contain the blob ${sha256}`, { sha256 })
}

/** Searches from the first record whose timestamp is at least `time`. */
const search = async (log: EventLog, sha256: string, time: number): Promise<Uint8Array | null> => {
  const chunks = new Map<string, Uint8Array[]>()
  for await (const records of log.read('blobs', { key: sha256, from: { time }, maxBytes: READ_BYTES })) {
    for (const record of records) {
      const event = decodeReadable(record)?.event
      if (!event || event.type !== 'BlobChunk' || event.sha256 !== sha256 || event.index >= event.count) continue
      const slot = `${event.count}/${event.index}`
      chunks.set(slot, [
        ...(chunks.get(slot) ?? []).filter((bytes) => Buffer.compare(bytes, event.bytes) !== 0),
        event.bytes,
      ])
      const whole = assemble(chunks, event.count, sha256)
      if (whole) return whole
    }
  }
  return null
}

/** Maximum number of combinations of chunks to try. */
const MAX_COMBINATIONS = 64

/**
 * Joins chunks to the blob with this SHA-256; null if none match. `chunks`: the candidates by `count/index`, the latest
 * last. Tries the latest of each index first, which a complete `putBlob` wrote, then all combinations. An index has
 * several candidates only after a corrupt copy.
 */
const assemble = (chunks: ReadonlyMap<string, Uint8Array[]>, count: number, sha256: string): Uint8Array | null => {
  const slots: Uint8Array[][] = []
  for (let index = 0; index < count; index += 1) {
    const options = chunks.get(`${count}/${index}`)
    if (!options) return null
    slots.push(options)
  }
  const latest = joined(
    slots.map((options) => options.at(-1)!),
    sha256,
  )
  if (latest || slots.reduce((product, options) => product * options.length, 1) > MAX_COMBINATIONS) return latest
  let candidates: Uint8Array[][] = [[]]
  for (const options of slots) candidates = candidates.flatMap((before) => options.map((bytes) => [...before, bytes]))
  for (const parts of candidates) {
    const whole = joined(parts, sha256)
    if (whole) return whole
  }
  return null
}

const joined = (parts: readonly Uint8Array[], sha256: string): Uint8Array | null => {
  const whole = Buffer.concat(parts)
  return contentSha(whole) === sha256 ? whole : null
}
