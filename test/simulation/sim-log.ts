/**
 * A log whose network is out to hurt: what is appended lands late, in any order and sometimes twice, also
 * when its writer is long dead. What has landed is durable, in one order per partition, for all readers.
 */
import { decodeRecord, TOPICS, type Encoded, type Event, type Logged, type Topic } from '@instar/events'
import { partitionOf } from '@instar/log/partition'
import type { Random } from './random.ts'

const PARTITIONS: Record<Topic, number> = { turns: 2, scores: 2, updates: 2, weights: 2, blobs: 1, upgrades: 1 }
/** Share of appends that land a second time. */
const REPEATED = 0.12

export type Ends = ReadonlyMap<string, number>
export type SimRecord = Encoded & { id: string }
type InFlight = { record: SimRecord; writer: object; landed: (logged: Logged<Event>) => void; first: boolean }

export const slot = (topic: Topic, partition: number): string => `${topic}/${partition}`

export class SimLog {
  readonly partitions = new Map<string, Logged<Event>[]>()
  readonly #random: Random
  readonly #events = new Map<string, Event>()
  #inFlight: InFlight[] = []

  constructor(random: Random) {
    this.#random = random
    for (const topic of TOPICS) for (let i = 0; i < PARTITIONS[topic]; i += 1) this.partitions.set(slot(topic, i), [])
  }

  get inFlight(): number { return this.#inFlight.length }

  send(record: SimRecord, writer: object, landed: (logged: Logged<Event>) => void): void {
    this.#inFlight.push({ record, writer, landed, first: true })
  }

  /** One append of those under way. */
  land(): void {
    const at = this.#random.below(this.#inFlight.length)
    const flight = this.#inFlight[at]
    if (!flight) return
    if (this.#random.chance(REPEATED)) this.#inFlight[at] = { ...flight, first: false }
    else this.#inFlight.splice(at, 1)
    const logged = this.#store(flight.record)
    if (flight.first) flight.landed(logged)
  }

  /** Half of what a killed writer had under way never arrives. */
  lose(writer: object): void {
    this.#inFlight = this.#inFlight.filter((flight) => flight.writer !== writer || this.#random.chance(0.5))
  }

  ends(topics: readonly Topic[]): Ends {
    return new Map([...this.partitions].filter(([name]) => topics.some((topic) => name.startsWith(`${topic}/`))).map(([name, records]) => [name, records.length]))
  }

  all(topic: Topic): Logged<Event>[] {
    return [...this.partitions].filter(([name]) => name.startsWith(`${topic}/`)).flatMap(([, records]) => records)
  }

  #store(record: SimRecord): Logged<Event> {
    const partition = partitionOf(record.key, PARTITIONS[record.topic])
    const records = this.partitions.get(slot(record.topic, partition))!
    const { topic, key, timestamp } = record
    const offset = records.length
    let event = this.#events.get(record.id)
    if (!event) this.#events.set(record.id, event = decodeRecord({ ...record, partition, offset }).event)
    const logged: Logged<Event> = { id: record.id, topic, key, partition, offset, timestamp, event }
    records.push(logged)
    return logged
  }
}
