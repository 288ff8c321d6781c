/**
 * Reads turns back whole: the record by its position, body and prompt ids with their references followed.
 * A small cache serves the sessions that are being talked in; everything can be read again.
 */
import {
  contentSha,
  decodeRecord,
  expandBody,
  expandIds,
  InstarError,
  type TurnAborted,
  type TurnCaptured,
  type TurnSampled,
} from '@instar/events'
import { getBlob } from './blobs.ts'
import type { EventLog } from './port.ts'
import { LruCache } from './lru-cache.ts'

type TurnRecord = TurnCaptured | TurnAborted | TurnSampled
type PositionOf = (turn: string) => { partition: number; offset: number } | undefined

/** A shorter body is soon put together again. */
const WORTH_KEEPING = 16 * 1024
const BYTES_PER_RECORD = 32 * 1024

export type TurnReader = {
  record(turn: string): Promise<TurnRecord>
  /** The request body as the client sent it. */
  body(turn: string): Promise<Uint8Array>
  /**
   * Adds the body of a turn that is being appended, for the next turn of its session to refer to. The bytes must not
   * change afterwards.
   */
  keepBody(turn: string, whole: Uint8Array): void
  promptIds(turn: string): Promise<number[]>
  /** How many references in a row lead from the turn to full copies (body, ids). */
  depths(turn: string): Promise<{ body: number; ids: number }>
}

/** A record's bytes in memory, about: what people and the model wrote, ids and log-probs. */
const weightOf = ({ body, text, prompt, ids }: TurnRecord): number =>
  1024 + body.written.bytes.length + text.bytes.length + 8 * (prompt.ids.length + 2 * ids.length)

/**
 * So many records stay in memory, and of bytes so many that a record may have BYTES_PER_RECORD on average.
 * `bodyBytes`: of whole bodies so many besides, those of the turns that were put together or kept last.
 */
export const createTurnReader = (log: EventLog, positionOf: PositionOf, records = 256, bodyBytes = 0): TurnReader => {
  const cache = new LruCache<TurnRecord>(records, records * BYTES_PER_RECORD, weightOf)
  const bodies = new LruCache<Uint8Array>(Infinity, bodyBytes, ({ length }) => length)

  const keepBody = (turn: string, whole: Uint8Array): void => {
    if (whole.length >= WORTH_KEEPING) bodies.set(turn, whole)
  }

  const record = async (turn: string): Promise<TurnRecord> => {
    const cached = cache.get(turn)
    if (cached) return cached
    const position = positionOf(turn)
    const stored = position && (await log.at({ topic: 'turns', ...position }))
    const event = stored && decodeRecord(stored).event
    if (!event || (event.type !== 'TurnCaptured' && event.type !== 'TurnAborted' && event.type !== 'TurnSampled')) {
      throw new InstarError('unknown_turn', `turn ${turn} is not on the log`, { turn })
    }
    cache.set(turn, event)
    return event
  }

  const body = async (turn: string): Promise<Uint8Array> => {
    const kept = bodies.get(turn)
    if (kept) return kept
    const event = await record(turn)
    const stored = event.body
    const middle = stored.blob === null ? stored.written.bytes : await getBlob(log, stored.blob, event.at)
    const whole = expandBody(stored, middle, stored.from === null ? null : await body(stored.from))
    if (contentSha(whole) !== stored.sha256)
      throw new InstarError('bad_record', `the body of turn ${turn} does not have the digest that its record names`, {
        turn,
        expected: stored.sha256,
      })
    keepBody(turn, whole)
    return whole
  }

  const promptIds = async (turn: string): Promise<number[]> => {
    const { prompt } = await record(turn)
    const ids = expandIds(prompt, prompt.from === null ? null : await spokenIds(prompt.from))
    if (ids.length !== prompt.length)
      throw new InstarError(
        'bad_record',
        `the prompt of turn ${turn} has ${ids.length} ids, its record says ${prompt.length}`,
        { turn },
      )
    return ids
  }

  const spokenIds = async (turn: string): Promise<number[]> => [...(await promptIds(turn)), ...(await record(turn)).ids]

  const depths = async (turn: string): Promise<{ body: number; ids: number }> => {
    const event = await record(turn)
    return {
      body: event.body.from === null ? 0 : 1 + (await depths(event.body.from)).body,
      ids: event.prompt.from === null ? 0 : 1 + (await depths(event.prompt.from)).ids,
    }
  }

  return { record, body, keepBody, promptIds, depths }
}
