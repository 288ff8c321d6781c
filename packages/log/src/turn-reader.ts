/**
 * Reads turns from the log: the record by its position, the request body and prompt ids with references to earlier
 * turns resolved. Caches recent turns.
 */
import {
  contentSha,
  decodeRecord,
  expandBody,
  expandIds,
  InstarError,
  MAX_DEPTH,
  type Event,
  type TurnAborted,
  type TurnCaptured,
  type TurnSampled,
} from '@instar/events'
import { getBlob } from './blobs.ts'
import { isCutAway } from './cuts.ts'
import type { EventLog } from './port.ts'
import { LruCache } from './lru-cache.ts'

type TurnRecord = TurnCaptured | TurnAborted | TurnSampled

/** Is the record an answer, finished or not, with its request? */
export const isTurnRecord = (event: Event): event is TurnRecord =>
  event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled'

export type TurnPosition = { partition: number; offset: number }
type PositionOf = (turn: string) => TurnPosition | undefined | Promise<TurnPosition | undefined>

/** Shorter bodies are not cached, since they are reassembled quickly. */
const MIN_CACHED_BODY_BYTES = 16 * 1024
const BYTES_PER_RECORD = 32 * 1024

/** Codes of errors of a TurnReader that say that a turn, or one that it refers to, cannot be read: others are the log's. */
export const TURN_FAULTS = ['bad_record', 'unknown_turn', 'missing_blob'] as const

/** What `read` gives of a turn; null if the turn, or one that it refers to, cannot be read or was cut from the log. */
export const ifReadable = async <T>(read: () => Promise<T>): Promise<T | null> => {
  try {
    return await read()
  } catch (error) {
    if (isCutAway(error)) return null
    if (error instanceof InstarError && TURN_FAULTS.some((code) => code === error.code)) return null
    throw error
  }
}

export type TurnReader = {
  record(turn: string): Promise<TurnRecord>
  /**
   * The request body as the client sent it. `hold` is called with the bytes of other bodies that it takes to put it together,
   * of three at most (the one before, its own part, the one that they make), before they are read, and with a negative number
   * once they are given back. Throws as `hold`.
   */
  body(turn: string, hold?: (bytes: number) => void): Promise<Uint8Array>
  /**
   * Caches the body of a turn that is being appended, since the next turn of the session refers to it. The bytes must
   * not change afterwards.
   */
  cacheBody(turn: string, whole: Uint8Array): void
  /** Keeps the record of a turn that was read by a follower, until newer ones take its place. */
  keepRecent(record: TurnRecord): void
  /** Bytes of the records that were kept so, as estimated. */
  recentBytes(): number
  promptIds(turn: string): Promise<number[]>
  /** The number of references to follow from the turn to a full copy, of the body and of the prompt ids. */
  depths(turn: string): Promise<{ body: number; ids: number }>
}

/** The estimated bytes of a record in memory: texts, ids and log-probabilities. */
const sizeOf = ({ body, text, prompt, ids }: TurnRecord): number =>
  1024 + body.written.bytes.length + text.bytes.length + 8 * (prompt.ids.length + 2 * ids.length)

/**
 * `records`: maximum number of cached records; their bytes are limited to `BYTES_PER_RECORD` for each. `bodyBytes`:
 * maximum bytes of cached bodies; `recentBytes`: of records that a follower has read. `positionOf`: the position of a turn's record. The methods throw `unknown_turn` for a
 * turn that is not on the log and `bad_record` if a body or prompt does not match its record, or needs more than
 * `MAX_DEPTH` other turns.
 */
export const createTurnReader = (
  log: EventLog,
  positionOf: PositionOf,
  records = 256,
  bodyBytes = 0,
  recentBytes = 0,
): TurnReader => {
  const cache = new LruCache<TurnRecord>(records, records * BYTES_PER_RECORD, sizeOf)
  const recent = new LruCache<TurnRecord>(Infinity, recentBytes, sizeOf)
  const bodies = new LruCache<Uint8Array>(Infinity, bodyBytes, ({ length }) => length)

  const cacheBody = (turn: string, whole: Uint8Array): void => {
    if (whole.length >= MIN_CACHED_BODY_BYTES) bodies.set(turn, whole)
  }

  const record = async (turn: string): Promise<TurnRecord> => {
    const cached = cache.get(turn)
    if (cached) return cached
    const kept = recent.get(turn)
    if (kept) {
      cache.set(turn, kept)
      return kept
    }
    const found = positionOf(turn)
    const position = found instanceof Promise ? await found : found
    const stored = position && (await log.at({ topic: 'turns', ...position }))
    const event = stored && decodeRecord(stored).event
    if (!event || !isTurnRecord(event)) {
      throw new InstarError('unknown_turn', `turn ${turn} is not on the log`, { turn })
    }
    cache.set(turn, event)
    return event
  }

  /** Records of another program may refer to turns without end. `left`: the references that may follow. */
  const countDown = (turn: string, left: number): number => {
    if (left > 0) return left - 1
    throw new InstarError('bad_record', `turn ${turn} is at the end of more than ${MAX_DEPTH} references`, { turn })
  }

  /** The records from the turn back to a body that is stored in full, or cached: then `whole` is that body. */
  const chainOf = async (turn: string): Promise<{ chain: [string, TurnRecord][]; whole: Uint8Array | null }> => {
    const chain: [string, TurnRecord][] = []
    let left = MAX_DEPTH
    for (let at: string | null = turn; at !== null;) {
      const cached = bodies.get(at)
      if (cached) return { chain: chain.reverse(), whole: cached }
      const event = await record(at)
      chain.push([at, event])
      at = event.body.from
      if (at !== null) left = countDown(chain.at(-1)![0], left)
    }
    return { chain: chain.reverse(), whole: null }
  }

  /** From the oldest body on, so that of the bodies before it only the last is kept. */
  const body = async (turn: string, hold: (bytes: number) => void = () => undefined): Promise<Uint8Array> => {
    const found = await chainOf(turn)
    let { whole } = found
    let held = 0
    const occupy = (bytes: number): void => {
      hold(bytes - held)
      held = bytes
    }
    try {
      for (const [name, { body: stored, at }] of found.chain) {
        // With the body before it its own bytes are put together; of one that is stored in full they are the body.
        const own = Math.max(0, stored.length - stored.prefix - stored.suffix)
        const part = stored.from === null ? 0 : (whole?.length ?? 0) + own
        occupy(part + (name === turn ? 0 : stored.length))
        const middle = stored.blob === null ? stored.written.bytes : await getBlob(log, stored.blob, at)
        whole = expandBody(stored, middle, whole)
        if (whole === null || contentSha(whole) !== stored.sha256)
          throw new InstarError('bad_record', `the body of turn ${name} does not match the SHA-256 in its record`, {
            turn: name,
            expected: stored.sha256,
          })
        cacheBody(name, whole)
      }
    } finally {
      if (held !== 0) occupy(0)
    }
    return whole!
  }

  const promptIds = async (turn: string, left = MAX_DEPTH): Promise<number[]> => {
    const { prompt } = await record(turn)
    const earlier = prompt.from === null ? null : await idsWithAnswer(prompt.from, countDown(turn, left))
    const ids = expandIds(prompt, earlier)
    if (ids.length !== prompt.length)
      throw new InstarError(
        'bad_record',
        `the prompt of turn ${turn} has ${ids.length} ids, its record requires ${prompt.length}`,
        { turn },
      )
    return ids
  }

  /** The prompt and answer ids of a turn. */
  const idsWithAnswer = async (turn: string, left: number): Promise<number[]> => [
    ...(await promptIds(turn, left)),
    ...(await record(turn)).ids,
  ]

  const depth = async (turn: string, part: 'body' | 'prompt', left = MAX_DEPTH): Promise<number> => {
    const { from } = (await record(turn))[part]
    return from === null ? 0 : 1 + (await depth(from, part, countDown(turn, left)))
  }

  return {
    record,
    body,
    cacheBody,
    keepRecent: (kept) => recent.set(kept.turn, kept),
    recentBytes: () => recent.bytes,
    promptIds: (turn) => promptIds(turn),
    depths: async (turn) => ({ body: await depth(turn, 'body'), ids: await depth(turn, 'prompt') }),
  }
}
