/** What a process put on its way, what it had read when it did, and what it was told by others than the log. */
import type { Event } from '@instar/events'
import type { Ordered } from '../../../services/gateway/src/admin/core/admin.ts'
import type { Measured } from '../../../services/publisher/src/core/decide.ts'
import type { Judged } from '../../../services/scorer/src/core/judgement.ts'
import type { Ends } from '../sim-log.ts'

export type Note = {
  /** What the judges said. */
  opinion?: Judged
  /** What was measured of a candidate, and the first thing that is wrong with it beside its content; null: nothing is. */
  measured?: Measured | null
  flaw?: string | null
  /** What an admin asked for. */
  ordered?: Ordered
  /** The session that a request says it is of; or that of the answer that it goes on from. Null: neither. */
  session?: string | null
  /** Digest of the request whose answer it goes on from. */
  before?: string | null
}

export type Decided = {
  id: string
  event: Event
  writer: string
  /** One life of the writer. */
  life: object
  /** The writer's positions. */
  seen: Ends
  /** By the writer's clock. */
  now: number
  share: ReadonlySet<number>
  /** Records in the order in which this life read them; null where an earlier one read some. */
  read: ReadonlyMap<string, number> | null
  note: Note
}
