/**
 * Finds turns on the log without a fold of `turns`: each by its time, which its score states, among the records of its
 * session's partition. Positions are remembered.
 */
import { decodeReadable, LruMap, sessionOfTurn, type ScoredFacts } from '@instar/events'
import { readHeld } from './cuts.ts'
import { partitionOf } from './partition.ts'
import type { EventLog, ReadOptions } from './port.ts'
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
/** Offsets of the last part of a partition that is searched where times do not tell; each further one is four times as long. */
export const LAST_PART = 4096
/** Limit of the positions, and of the sessions, that are remembered. */
export const MOST_FOUND = 4096

type FinderLog = Pick<EventLog, 'read' | 'starts' | 'ends' | 'partitions'>

export class TurnFinder {
  readonly #log: FinderLog
  readonly #placeOf: (turn: string) => ScoredPlace | undefined
  readonly #found = new LruMap<string, TurnPosition>()
  /** By session where the last turn with a score that was asked for, and those before it, are. */
  readonly #spans = new LruMap<string, Span>()

  /** `placeOf`: of a turn with a score. */
  constructor(log: FinderLog, placeOf: (turn: string) => ScoredPlace | undefined) {
    this.#log = log
    this.#placeOf = placeOf
  }

  /** Positions and sessions in memory. */
  get size(): number {
    return this.#found.size + this.#spans.size
  }

  /**
   * The position of a turn's record; undefined if the log does not have it. A turn without a score, to which another refers, is
   * searched for between the first turn of the session and that one.
   */
  async positionOf(turn: string): Promise<TurnPosition | undefined> {
    const known = this.#found.get(turn)
    if (known) return known
    const session = sessionOfTurn(turn)
    const place = this.#placeOf(turn)
    if (place) keep(this.#spans, session, spanOfSession(place))
    const isIt = (found: { turn: string }): boolean => found.turn === turn
    const of = this.#spans.get(session)
    // Not looked up again: the searches of others may push it out.
    let position: TurnPosition | undefined
    for (const { from, to } of place ? spansOf(place) : of ? [of] : [])
      position ??= await this.#search(session, { from: { time: from }, to: { time: to } }, isIt)
    position ??= await this.#searchBack(session, place?.of?.at ?? 0, isIt)
    if (!position || !place?.of) return position
    const to = { time: place.of.at + CLOCK_SKEW_MS }
    for (const time of place.of.earlier ?? [])
      await this.#search(session, { from: { time }, to }, ({ at }) => at === time)
    return position
  }

  /**
   * Searches all from the first record that is not before a time, the last ones first: the record of a clock that was ahead ends each
   * search up to a time, however long ago it was written.
   */
  async #searchBack(
    session: string,
    since: number,
    isIt: (found: { turn: string }) => boolean,
  ): Promise<TurnPosition | undefined> {
    const partition = partitionOf(session, this.#log.partitions('turns'))
    let first: number | undefined
    const one = { partition, from: { time: since }, maxBatch: 1, maxBytes: READ_BYTES }
    for await (const [record] of readHeld(this.#log, 'turns', one)) {
      first = record?.offset
      break
    }
    if (first === undefined) return undefined
    const { turns = {} } = await this.#log.ends(['turns'])
    for (let [to, part] = [turns[partition] ?? 0, LAST_PART]; to > first; part *= 4) {
      const from = Math.max(first, to - part)
      const bounds = { from: { turns: { [partition]: from } }, to: { turns: { [partition]: to } } }
      const position = await this.#search(session, bounds, isIt)
      if (position) return position
      to = from
    }
    return undefined
  }

  /** Remembers the turns of the session that are read, until `isLast` of one of them, and gives the position of that one. */
  async #search(
    session: string,
    bounds: Pick<ReadOptions, 'from' | 'to'>,
    isLast: (turn: { turn: string; at: number }) => boolean,
  ): Promise<TurnPosition | undefined> {
    for await (const records of readHeld(this.#log, 'turns', { key: session, maxBytes: READ_BYTES, ...bounds }))
      for (const record of records) {
        const event = decodeReadable(record)?.event
        if (!event || !('answer' in event) || sessionOfTurn(event.turn) !== session) continue
        // The first record of a turn counts.
        const position = this.#found.get(event.turn) ?? { partition: record.partition, offset: record.offset }
        if (!this.#found.has(event.turn)) keep(this.#found, event.turn, position)
        if (isLast(event)) return position
      }
    return undefined
  }
}

/** Times of records, ms since 1970: the search begins at the first record that is not before `from`, and ends at the first one that is not before `to`. */
type Span = { from: number; to: number }

const near = (scoredAt: number): Span => ({
  from: Math.max(0, scoredAt - SCORED_WITHIN_MS),
  to: scoredAt + CLOCK_SKEW_MS,
})

/** Where a turn is searched for first, in this order. The second is that of an imported turn, which is appended long after its time. */
const spansOf = ({ scoredAt, of }: ScoredPlace): Span[] => [
  ...(of ? [{ from: of.at, to: of.finishedAt + CLOCK_SKEW_MS }] : []),
  near(scoredAt),
]

const spanOfSession = ({ scoredAt, of }: ScoredPlace): Span =>
  of ? { from: of.begunAt, to: of.finishedAt + CLOCK_SKEW_MS } : near(scoredAt)

const keep = <V>(map: LruMap<string, V>, key: string, value: V): void => {
  map.set(key, value)
  if (map.size > MOST_FOUND) map.delete(map.oldest()!)
}
