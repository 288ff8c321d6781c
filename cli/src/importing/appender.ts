/** Groups records into appends. */
import { NEWEST, type Encoded, type Versions } from '@instar/events'
import { persist, versionsOn, type EventLog } from '@instar/log'

/** Records of one append: at a session's end, and within a session. */
const APPEND_RECORDS = 256
const MAX_APPEND_RECORDS = 1024
const MAX_APPEND_BYTES = 4 << 20

export type Appender = {
  /** The record versions to write. */
  versions: Versions
  add(record: Encoded): Promise<void>
  /** Appends the pending records if there are enough of them. */
  endSession(): Promise<void>
  /** Appends the pending records. */
  flush(): Promise<void>
}

/**
 * A session is split between appends only if it exceeds the limits of one append: a reader then does not close a
 * session of which it has read a part. `log` null: nothing is appended.
 */
export const createAppender = (log: EventLog | null, signal: AbortSignal): Appender => {
  let pending: Encoded[] = []
  let bytes = 0
  const flush = async (): Promise<void> => {
    if (log && pending.length > 0) await persist(log, pending, signal)
    pending = []
    bytes = 0
  }
  return {
    versions: log ? versionsOn(log) : NEWEST,
    flush,
    async add(record) {
      pending.push(record)
      bytes += record.payload.length
      if (pending.length >= MAX_APPEND_RECORDS || bytes >= MAX_APPEND_BYTES) await flush()
    },
    async endSession() {
      if (pending.length >= APPEND_RECORDS) await flush()
    },
  }
}
