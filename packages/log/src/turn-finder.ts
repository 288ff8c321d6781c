/**
 * Finds turns on the log without a fold of `turns`: each by its time, which its score states, among the records of its
 * session's partition. Positions are remembered.
 */
import { decodeReadable, LruMap, sessionOfTurn, type ScoredFacts } from '@instar/events'
import { readHeld } from './cuts.ts'
import type { EventLog } from './port.ts'
import type { TurnPosition } from './turn-reader.ts'

/** `scoredAt`: time of a score of the turn, ms since 1970. `of`: what the score says; null: it is of an earlier build. */
export type ScoredPlace = {
  scoredAt: number
  of: Pick<ScoredFacts, 'at' | 'finishedAt' | 'begunAt' | 'earlier'> | null
}

/** Largest difference of clocks that costs no further search. */
const CLOCK_SKEW_MS = 10 * 60_000
/** A turn is scored at its next one, or when its session has been quiet: most are found in the hour before. */
const SCORED_WITHIN_MS = 60 * 60_000
/** Bytes per fetch: a turn is near the place at which its time is found. */
const READ_BYTES = 256 * 1024
/** Limit of the positions, and of the sessions, that are remembered. */
export const MOST_FOUND = 4096

export class TurnFinder {
  readonly #log: Pick<EventLog, 'read' | 'starts'>
  readonly #placeOf: (turn: string) => ScoredPlace | undefined
  readonly #found = new LruMap<string, TurnPosition>()
  /** By session where the last turn with a score that was asked for, and those before it, are. */
  readonly #spans = new LruMap<string, Span>()

  /** `placeOf`: of a turn with a score. */
  constructor(log: Pick<EventLog, 'read' | 'starts'>, placeOf: (turn: string) => ScoredPlace | undefined) {
    this.#log = log
    this.#placeOf = placeOf
  }

  /** Positions and sessions in memory. */
  get size(): number {
    return this.#found.size + this.#spans.size
  }

  /**
   * The position of a turn's record; undefined if it is not found. A turn without a score, to which another refers, is
   * searched for between the first turn of the session and that one.
   */
  async positionOf(turn: string): Promise<TurnPosition | undefined> {
    const known = this.#found.get(turn)
    if (known) return known
    const session = sessionOfTurn(turn)
    const place = this.#placeOf(turn)
    if (place) keep(this.#spans, session, spanOfSession(place))
    const spans = place ? spansOf(place) : beforeIn(this.#spans.get(session))
    for (const span of spans) {
      await this.#search(session, span, (found) => found.turn === turn)
      if (this.#found.has(turn)) break
    }
    const { at = 0, earlier } = place?.of ?? {}
    if (this.#found.has(turn))
      for (const from of earlier ?? [])
        await this.#search(session, { from, to: at + CLOCK_SKEW_MS }, (found) => found.at === from)
    return this.#found.get(turn)
  }

  /** Remembers the turns of the session that are read, until `isLast` of one of them. */
  async #search(
    session: string,
    { from, to }: Span,
    isLast: (turn: { turn: string; at: number }) => boolean,
  ): Promise<void> {
    const bounds = { from: { time: from }, ...(to === null ? {} : { to: { time: to } }) }
    for await (const records of readHeld(this.#log, 'turns', { key: session, maxBytes: READ_BYTES, ...bounds }))
      for (const record of records) {
        const event = decodeReadable(record)?.event
        if (!event || !('answer' in event) || sessionOfTurn(event.turn) !== session) continue
        const { partition, offset } = record
        // The first record of a turn counts.
        if (!this.#found.has(event.turn)) keep(this.#found, event.turn, { partition, offset })
        if (isLast(event)) return
      }
  }
}

/** Times of records, ms since 1970: the search begins at the first record that is not before `from`, and ends at one of `to`, or with the log. */
type Span = { from: number; to: number | null }

const near = (scoredAt: number): Span => ({
  from: Math.max(0, scoredAt - SCORED_WITHIN_MS),
  to: scoredAt + CLOCK_SKEW_MS,
})

/**
 * Where a turn is searched for, in this order. The second is that of an imported turn, which is appended long after its time; the last
 * that of a gateway whose clock is behind.
 */
const spansOf = ({ scoredAt, of }: ScoredPlace): Span[] => {
  const last = { from: of?.at ?? 0, to: scoredAt + CLOCK_SKEW_MS }
  return [...(of ? [{ from: of.at, to: of.finishedAt + CLOCK_SKEW_MS }] : []), near(scoredAt), last]
}

const spanOfSession = ({ scoredAt, of }: ScoredPlace): Span =>
  of ? { from: of.begunAt, to: of.finishedAt + CLOCK_SKEW_MS } : near(scoredAt)

/** Of a turn without a score. */
const beforeIn = (span: Span | undefined): Span[] => (span ? [span, { from: 0, to: span.to }] : [{ from: 0, to: null }])

const keep = <V>(map: LruMap<string, V>, key: string, value: V): void => {
  map.set(key, value)
  if (map.size > MOST_FOUND) map.delete(map.oldest()!)
}
