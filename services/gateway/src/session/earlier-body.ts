/** Bodies of earlier turns that a request needs, however small it is: they count as its memory, and large ones are paced. */
import { asInstarError, parsedBytes, parseJson, type Fields } from '@instar/dialects'
import type { InstarError } from '@instar/events'
import type { TurnReader } from '@instar/log'
import type { Paced } from './paced.ts'

/** `hold` counts memory that the request occupies; a negative number gives it back. Throws `overloaded`, `body_too_large`. */
export type Reader = { key: string | null; hold: (bytes: number) => void; gone?: AbortSignal | undefined }

export type EarlierPorts = { reader: TurnReader; readings: Paced }

/** Bytes of a body from which its reading is paced. */
const LARGE_BODY = 1024 * 1024

/**
 * What `use` makes of the body of the turn, which is held from before it is read, as those from which it is put together are. Throws as `hold` and `use`, as the reader of
 * the log, and for a large body as Paced.
 */
export const withEarlierBody = async <T>(
  { reader, readings }: EarlierPorts,
  turn: string,
  { key, hold, gone }: Reader,
  use: (body: Uint8Array, record: Awaited<ReturnType<TurnReader['record']>>) => T,
): Promise<T> => {
  const record = await reader.record(turn)
  const { length } = record.body
  const read = async (): Promise<T> => {
    hold(length)
    return use(await reader.body(turn, hold), record)
  }
  return length < LARGE_BODY ? read() : readings.run(key, gone, read)
}

/** The parsed body, which is held, too. */
export const parseHeld = (body: Uint8Array, hold: Reader['hold']): Fields => {
  hold(parsedBytes(body))
  return parseJson(body)
}

/** Gives back what `work` holds once it is done. */
export const holdingDuring = async <T>(asking: Reader, work: (asking: Reader) => Promise<T>): Promise<T> => {
  let held = 0
  const hold = (bytes: number): void => {
    asking.hold(bytes)
    held += bytes
  }
  try {
    return await work({ ...asking, hold })
  } finally {
    if (held > 0) asking.hold(-held)
  }
}

/** Errors of the request that reads, not of what it reads. */
const OF_READER: ReadonlySet<string> = new Set(['overloaded', 'aborted'])

/**
 * `otherwise` if the earlier turn cannot be read now, or takes more memory than one request may beside its own body. An error
 * that is not of the table, as of a damaged file, counts as `internal`: the next request would fail with it as well.
 */
export const readOr = async <T>(otherwise: T, read: () => Promise<T>): Promise<T> => {
  try {
    return await read()
  } catch (error) {
    if (OF_READER.has(asInstarError(error).code)) throw error
    return otherwise
  }
}

/** A row of the snapshot, which has the turn's position, is damaged: the next process reads the log anew. */
const DAMAGED = 'snapshot_damaged'

/** The log, or the archive of what was cut from it, is away: read again later, the same is there. */
const AWAY: ReadonlySet<string> = new Set(['log_unavailable', 'archive_unavailable'])

/** `missed` is called with an error of `AWAY` in place of what could not be read. */
export type SessionReader = Reader & { missed: (error: InstarError) => void }

/**
 * As `readOr`, for what decides a request's session; `snapshot_damaged` is thrown. While the log, or its archive, is away, other things may decide
 * it; where nothing does, the request must fail with what was missed: a session of its own would leave the answered turn
 * without its next state.
 */
export const readForSession = async <T>(
  { missed }: Pick<SessionReader, 'missed'>,
  otherwise: T,
  read: () => Promise<T>,
): Promise<T> => {
  try {
    return await read()
  } catch (error) {
    const fault = asInstarError(error)
    if (OF_READER.has(fault.code) || fault.code === DAMAGED) throw error
    if (AWAY.has(fault.code)) missed(fault)
    return otherwise
  }
}
