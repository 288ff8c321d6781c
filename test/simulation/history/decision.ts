/** A record that a process sent, what it had read then, and its inputs besides the log. */
import type { Event } from '@instar/events'
import type { Ordered } from '../../../services/gateway/src/admin/core/admin.ts'
import type { Measured } from '../../../services/publisher/src/core/decide.ts'
import type { Judged } from '../../../services/scorer/src/core/judgement.ts'
import type { Ends } from '../sim-log.ts'

export type Note = {
  /** The verdicts of the judges. */
  opinion?: Judged
  /** Where the life of a scorer began to read. */
  begun?: Ends
  /** The figures of a candidate, and its first fault besides its content; null: none. */
  measured?: Measured | null
  flaw?: string | null
  /** What a trainer had read, and its clock, when it chose a batch ahead of the verdict on its parent; absent: when it sealed it. */
  chosen?: { seen: Ends; now: number }
  /** The command of an admin. */
  ordered?: Ordered
  /** The session label of a request, or the session of the answer that it continues. Null: neither. */
  session?: string | null
  /** The digest of the request whose answer it continues. */
  before?: string | null
}

/** What a trainer had read when it stopped to read `turns`. `policy`: whose scores it reads. */
export type Left = { policy: string; ends: Ends }

export type Decided = {
  id: string
  event: Event
  writer: string
  /** One life of the writer. */
  life: object
  /** The positions of the writer. */
  seen: Ends
  /** Null: it reads all topics. */
  left: Left | null
  /** The time by the clock of the writer. */
  now: number
  share: ReadonlySet<number>
  /** What was on the log when each partition of the share was given to it; absent: its kind reads all partitions always. */
  received: ReadonlyMap<number, Ends>
  /** Records, and places of records, in the order in which this life read them; null if an earlier life read some. */
  read: ReadonlyMap<string, number> | null
  note: Note
}
