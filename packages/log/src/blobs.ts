/**
 * Bytes on the log: chunks of at most 512 KiB under the key of their sha256, appended before the record
 * that names them. A blob is looked for by that name and from the time that the naming record gives, which its chunks
 * have as well.
 */
import { contentSha, decodeReadable, encodeRecord, InstarError, type Versions } from '@instar/events'
import { persist } from './persist.ts'
import type { EventLog } from './port.ts'
import { versionsOn } from './upgrades.ts'

export const CHUNK_BYTES = 512 * 1024
/** Tolerance between the time in the naming record and that of the chunks: the allowed clock skew. */
const CLOCK_SKEW_MS = 10 * 60_000
/** Fetch size: one whole chunk and little beyond it. */
const READ_BYTES = 32 * 1024

const NEVER = new AbortController().signal

/**
 * Appends the blob and returns its sha256; durable when it resolves. Retries while the log is unavailable. Appending
 * the same bytes twice is harmless.
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

/** The records of a blob whose sha256 is known. */
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
        bytes: bytes.slice(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
        at,
      },
      versions,
    )
  }
}

/**
 * Assembles the blob from any chunks that hash to its name; a bad chunk never hides a good one. `at`: ms, the time
 * that `putBlob` was given. Throws `missing_blob` when the log, read to its end as of this call, does not hold it, from
 * ten minutes before that time on.
 */
export const getBlob = async (log: EventLog, sha256: string, at: number): Promise<Uint8Array> => {
  const found =
    (await search(log, sha256, at)) ?? (at > 0 ? await search(log, sha256, Math.max(0, at - CLOCK_SKEW_MS)) : null)
  if (found) return found
  throw new InstarError('missing_blob', `the log does not hold the blob ${sha256}`, { sha256 })
}

/** From the first record of that time or a later one: no record of that time stands before it. */
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

/** More combinations than this are not tried. */
const MOST_TRIES = 64

/**
 * `chunks`: what each slot holds, the latest last. First the latest of each, which is what a whole `putBlob`
 * leaves whatever came before it; then the combinations: more than one per slot is rare (a corrupt copy).
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
  if (latest || slots.reduce((product, options) => product * options.length, 1) > MOST_TRIES) return latest
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
