/**
 * A log with an unreliable network: appends arrive late, in any order and sometimes twice, also after their writer was
 * killed, or are refused. Some records are unreadable. Records that arrived are durable, in one order per partition,
 * for all readers.
 */
import { decodeReadable, FLOW, TOPICS, type Encoded, type Event, type Logged, type Topic } from '@instar/events'
import { partitionOf } from '@instar/log/partition'
import type { EventLog, LogRecord } from '@instar/log'
import type { Random } from '../kit/random.ts'

const PARTITIONS: Record<Topic, number> = { turns: 2, scores: 2, updates: 2, weights: 2, blobs: 1, upgrades: 1 }
/** Share of appends that arrive a second time. */
const REPEATED = 0.12

export type Ends = ReadonlyMap<string, number>
/**
 * The record as a newer build writes it. `stops`: as a type that older builds do not know, else with one more field.
 */
export type Newer = { stops: boolean; as: Pick<LogRecord, 'schema' | 'payload' | 'avro'> }
export type SimRecord = Encoded & { id: string; newer: Newer | null }
type InFlight = { record: SimRecord; writer: object; landed: (logged: Logged<Event>) => void; first: boolean }
type Stored = LogRecord & { id: string; newer: Newer | null }

/** Of a record that is on the log twice its place is read twice. */
export const placeOf = (id: string, offset: number): string => `${id} ${offset}`

export const slot = (topic: Topic, partition: number): string => `${topic}/${partition}`

export class SimLog {
  readonly partitions = new Map<string, Stored[]>()
  readonly #random: Random
  readonly #events = new Map<string, Logged<Event> | null>()
  #inFlight: InFlight[] = []

  constructor(random: Random) {
    this.#random = random
    for (const topic of TOPICS) for (let i = 0; i < PARTITIONS[topic]; i += 1) this.partitions.set(slot(topic, i), [])
  }

  partitionOf(topic: Topic, key: string): number {
    return partitionOf(key, PARTITIONS[topic])
  }

  get inFlight(): number {
    return this.#inFlight.length
  }

  send(record: SimRecord, writer: object, landed: (logged: Logged<Event>) => void): void {
    this.#inFlight.push({ record, writer, landed, first: true })
  }

  /** One append in progress. */
  land(): void {
    const at = this.#random.below(this.#inFlight.length)
    const flight = this.#inFlight[at]
    if (!flight) return
    if (this.#random.chance(REPEATED)) this.#inFlight[at] = { ...flight, first: false }
    else this.#inFlight.splice(at, 1)
    const { topic, key, schema, payload, timestamp, id, newer } = flight.record
    const stored = this.#store({ topic, key, schema, payload, timestamp, id, newer })
    const logged = this.decode(stored, true)
    if (flight.first && logged) flight.landed(logged)
  }

  /** Bytes that are no record, under one of `keys`. */
  poison(keys: readonly string[]): void {
    const random = this.#random
    const topic = random.pick(TOPICS.filter((name) => name !== 'blobs'))
    const payload = Buffer.from(random.hex(random.below(24)), 'hex')
    const schema = `${random.pick<string>(FLOW[topic].records)}.v1`
    const record = {
      topic,
      key: random.pick(keys),
      schema,
      payload,
      timestamp: 0,
      id: `poison ${random.hex(8)}`,
      newer: null,
    }
    if (decodeReadable({ ...record, partition: 0, offset: 0 }) === null) this.#store(record)
  }

  /** Half of the appends in progress of a killed writer never arrive. */
  lose(writer: object): void {
    this.#inFlight = this.#inFlight.filter((flight) => flight.writer !== writer || this.#random.chance(0.5))
  }

  ends(topics: readonly Topic[]): Ends {
    return new Map(
      [...this.partitions]
        .filter(([name]) => topics.some((topic) => name.startsWith(`${topic}/`)))
        .map(([name, records]) => [name, records.length]),
    )
  }

  /** The part of the log that a snapshot needs. */
  get asLog(): EventLog {
    const at: EventLog['at'] = async ({ topic, partition, offset }) =>
      this.partitions.get(slot(topic, partition))?.[offset]
    return { at, partitions: (topic: Topic) => PARTITIONS[topic] } as EventLog
  }

  /** Every record of a topic that the newest build can read. */
  all(topic: Topic): Logged<Event>[] {
    return [...this.partitions]
      .filter(([name]) => name.startsWith(`${topic}/`))
      .flatMap(([, records]) => records.flatMap((record) => this.decode(record, true) ?? []))
  }

  /** Null for unreadable bytes. Throws `unknown_record` for a type of a newer build. */
  decode(record: Stored, newest: boolean): Logged<Event> | null {
    if (record.newer && !newest) return decodeReadable({ ...record, ...record.newer.as })
    let first = this.#events.get(record.id)
    if (first === undefined) this.#events.set(record.id, (first = decodeReadable({ ...record })))
    return first && { ...first, partition: record.partition, offset: record.offset }
  }

  #store(record: Omit<Stored, 'partition' | 'offset'>): Stored {
    const partition = partitionOf(record.key, PARTITIONS[record.topic])
    const records = this.partitions.get(slot(record.topic, partition))!
    const stored = { ...record, partition, offset: records.length }
    records.push(stored)
    return stored
  }
}
