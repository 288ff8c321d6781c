/** A pass over the log: every record is folded; rows of records beyond the positions in the database are written. */
import { InstarError } from '@instar/events/errors'
import { recordId } from '@instar/events/ids'
import type { Logged } from '@instar/events/records'
import { followEvents } from '@instar/log/follow-events'
import type { Follower } from '@instar/log/follow'
import type { EventLog, LogRecord, Offsets } from '@instar/log/port'
import type { Snapshot } from '@instar/log/snapshots/snapshot'
import type { SnapshotStore } from '@instar/log/snapshots/store'
import { initialProjection, project, PROJECTED } from './project.ts'
import { noRows, RowBytes, type ProjectedRows } from './rows.ts'
import { STATE_VERSION, storedProjection } from './stored.ts'
import { RestartError, type DatabaseSession } from './database-session.ts'
import { NewerBuildError, partitionKey, type Advance, type Mark, type Partition } from './sink.ts'

export type Pass = {
  caughtUp(): Promise<void>
  /** Stops reading, writes the rows of the records that were read, and writes the snapshot. */
  finish(): Promise<void>
  /** Ends the pass without writing. */
  stop(): Promise<void>
  /** Resolves if the pass must be repeated; rejects if the log cannot be followed. */
  done: Promise<'restart'>
}

/** Estimated bytes of rows after which a transaction is written with fewer than `batch` records. */
export const MOST_BYTES = 8 << 20

/** Whether the error requires a new pass (or standby) and is not fatal. */
const requiresRestart = (error: unknown): boolean => error instanceof RestartError || error instanceof NewerBuildError

type PassParts = {
  log: EventLog
  session: DatabaseSession
  marks: Map<string, Mark>
  batch: number
  linger: number
  group: string
  snapshots: SnapshotStore | undefined
}

export const startPass = async ({ log, session, marks, batch, linger, group, snapshots }: PassParts): Promise<Pass> => {
  const snapshot = snapshots?.of(group, STATE_VERSION)
  const from = snapshot ? await openSnapshot(snapshot, log, marks) : {}
  const state = snapshot ? storedProjection(snapshot) : initialProjection()
  const discarded = noRows()
  let rows = noRows()
  let size = new RowBytes()
  let reached = new Map<string, Partition & Mark>()
  let pending = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()
  const ended = Promise.withResolvers<'restart'>()
  ended.promise.catch(() => undefined)

  /**
   * Takes over positions that another projection has advanced. If the database is behind the known positions, it lacks
   * rows that are already folded: throws RestartError.
   */
  const adoptMarks = (stored: ReadonlyMap<string, Mark>): void => {
    for (const [key, { next }] of marks) if ((stored.get(key)?.next ?? 0) < next) throw new RestartError()
    for (const [key, mark] of stored) marks.set(key, mark)
  }

  const markOf = (at: Partition): Mark => marks.get(partitionKey(at)) ?? { next: 0, last: '' }

  const writeRows = async (out: ProjectedRows, to: readonly (Partition & Mark)[]): Promise<void> => {
    for (;;) {
      const advances: Advance[] = to
        .filter((at) => markOf(at).next < at.next)
        .map(({ topic, partition, next, last }) => ({
          topic,
          partition,
          from: markOf({ topic, partition }),
          to: { next, last },
        }))
      if (advances.length === 0) return
      const written = await session.use(async (sink) => {
        if (await sink.write(out, advances)) return true
        // Another projection or a lost attempt of this one has written the rows, or the database was replaced.
        adoptMarks(await sink.marks(log))
        return false
      })
      if (written) for (const advance of advances) marks.set(partitionKey(advance), advance.to)
      if (written) return
      const unknown = advances.find((at) => !marks.has(partitionKey(at)))
      if (unknown)
        throw new InstarError(
          'data_unreadable',
          `a record has the position ${unknown.topic} ${unknown.partition}@${unknown.to.next - 1}, but the log has no such partition`,
          { topic: unknown.topic, partition: unknown.partition },
        )
    }
  }

  const queue = (work: () => Promise<void>): Promise<void> => {
    writing = writing.then(work)
    writing.catch((error: unknown) => {
      if (requiresRestart(error)) ended.resolve('restart')
      else ended.reject(error)
    })
    return writing
  }

  let checking = false
  session.onBroken = () => {
    if (checking) return
    checking = true
    void queue(() => {
      checking = false
      return session.use(async (sink) => adoptMarks(await sink.marks(log)))
    }).catch(() => undefined)
  }

  /** Writes the collected rows in a transaction, after the one that is running. */
  const flush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    if (pending === 0) return writing
    const [out, to] = [rows, [...reached.values()]]
    rows = noRows()
    size = new RowBytes()
    reached = new Map()
    pending = 0
    return queue(() => writeRows(out, to))
  }

  /** Collects the rows of a record. Rows that the database has are discarded. The promise, if any, is backpressure. */
  const collect = (
    at: { topic: LogRecord['topic']; partition: number; offset: number; id: string },
    add: (rows: ProjectedRows) => void,
  ): Promise<void> | undefined => {
    if (at.offset < markOf(at).next) {
      add(discarded)
      for (const list of Object.values(discarded)) list.length = 0
      return undefined
    }
    add(rows)
    reached.set(partitionKey(at), { topic: at.topic, partition: at.partition, next: at.offset + 1, last: at.id })
    pending += 1
    size.measure(rows)
    if (pending >= batch || size.bytes >= MOST_BYTES) {
      const before = writing
      void flush().catch(() => undefined)
      return before
    }
    timer ??= setTimeout(() => void flush().catch(() => undefined), linger)
    return undefined
  }

  const follower: Follower = await followEvents(log, {
    name: group,
    topics: PROJECTED,
    from,
    onEvent(logged: Logged) {
      const collected = collect(logged, (into) => project(state, logged, into))
      const saved = snapshot?.after(logged, flush)
      return collected && saved ? Promise.all([collected, saved]).then(() => undefined) : (collected ?? saved)
    },
    onBad: (record) =>
      void collect({ ...record, id: recordId(record) }, (into) =>
        into.ignored.push({
          topic: record.topic,
          key: record.key,
          record_id: recordId(record),
          type: record.schema,
          why: 'unreadable',
          partition: record.partition,
          position: record.offset,
        }),
      ),
  })
  follower.done.catch((error: unknown) => {
    if (requiresRestart(error)) ended.resolve('restart')
    else ended.reject(error)
  })
  const done = ended.promise.finally(async () => {
    clearTimeout(timer)
    await follower.stop()
    await snapshot?.close({ save: false })
  })
  done.catch(() => undefined)
  return {
    done,
    async finish() {
      await follower.stop()
      await flush()
      await snapshot?.close()
    },
    async caughtUp() {
      await follower.caughtUp()
      await flush()
    },
    async stop() {
      clearTimeout(timer)
      await follower.stop()
      await snapshot?.close({ save: false })
    },
  }
}

/**
 * Opens the snapshot and returns the positions to continue from. If the database is behind the snapshot, the snapshot
 * is discarded and the log is read from its start.
 */
const openSnapshot = async (snapshot: Snapshot, log: EventLog, marks: ReadonlyMap<string, Mark>): Promise<Offsets> => {
  const from = await snapshot.open(log)
  const ahead = PROJECTED.some((topic) =>
    Object.entries(from[topic] ?? {}).some(
      ([partition, next]) => next > (marks.get(partitionKey({ topic, partition: Number(partition) }))?.next ?? 0),
    ),
  )
  if (!ahead) return from
  await snapshot.startOver('PostgreSQL is behind it')
  return {}
}
