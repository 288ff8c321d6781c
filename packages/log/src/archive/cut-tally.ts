/** What a cut deletes of a partition, counted record by record in their order, and which of it the archive does not have. */
import type { Topic } from '@instar/events/flow'
import type { LogRecord, Position } from '../port.ts'
import { MAX_DAMAGED_OFFSETS } from './manifest.ts'
import type { DamagedReport } from './report.ts'

type Counts = { records: number; bytes: number; unarchived: DamagedReport }

/** Of the records that were added the last one that the log keeps apart stays; those before it are deleted. */
export class CutTally {
  /** Records and bytes (payloads) that are deleted. `unarchived`: of these records those that the archive does not have. */
  readonly deleted: Counts = { records: 0, bytes: 0, unarchived: { records: 0, first: [] } }
  /** The one that stays, and the one before it. As the archive has them: rows that were damaged since have another id. */
  last: LogRecord | null = null
  before: LogRecord | null = null
  /** From `last` on: deleted once a later one stays instead. */
  #since: Counts = { records: 0, bytes: 0, unarchived: { records: 0, first: [] } }

  /** `archived`: the archive's record of this offset. One that Kafka has and no build can read is never the one that stays. */
  add(record: LogRecord, archived: LogRecord | undefined): void {
    if (!record.unreadable) {
      addTo(this.deleted, this.#since)
      this.#since = { records: 0, bytes: 0, unarchived: { records: 0, first: [] } }
      this.before = this.last
      this.last = archived ?? record
    }
    this.#since.records += 1
    this.#since.bytes += record.payload.length
    if (!archived) addPositions(this.#since.unarchived, { records: 1, first: [placeOf(record)] })
  }
}

const placeOf = ({ topic, partition, offset }: LogRecord): Position => ({ topic, partition, offset })

const addTo = (sum: Counts, more: Counts): void => {
  sum.records += more.records
  sum.bytes += more.bytes
  if (more.unarchived.records > 0) addPositions(sum.unarchived, more.unarchived)
}

const addPositions = (sum: DamagedReport, { records, first }: DamagedReport): void => {
  sum.records += records
  if (sum.first.length < MAX_DAMAGED_OFFSETS) sum.first.push(...first.slice(0, MAX_DAMAGED_OFFSETS - sum.first.length))
}

/** Of each partition, by the order in which the records were added. */
export class CutTallies {
  readonly #of = new Map<string, CutTally>()

  add(record: LogRecord, archived: LogRecord | undefined): void {
    const place = `${record.topic} ${record.partition}`
    const known = this.#of.get(place)
    const tally = known ?? new CutTally()
    if (!known) this.#of.set(place, tally)
    tally.add(record, archived)
  }

  get(topic: Topic, partition: number): CutTally | undefined {
    return this.#of.get(`${topic} ${partition}`)
  }

  all(): CutTally[] {
    return [...this.#of.values()]
  }
}
