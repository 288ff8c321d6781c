/** One pass over the log: every record is folded, the rows of those that the database does not hold yet are written. */
import { recordId } from '@instar/events/ids'
import type { Logged } from '@instar/events/records'
import { followEvents } from '@instar/log/follow-events'
import type { Follower } from '@instar/log/follow'
import type { EventLog, LogRecord, Offsets } from '@instar/log/port'
import type { Snapshot } from '@instar/log/snapshots/snapshot'
import type { SnapshotStore } from '@instar/log/snapshots/store'
import { initialProjection, project, PROJECTED } from './project.ts'
import { noRows, type ProjectedRows } from './rows.ts'
import { stateVersion, storedProjection } from './stored.ts'
import { RestartError, type DatabaseSession } from './database-session.ts'
import { NewerBuildError, partitionKey, type Advance, type Mark, type Partition } from './sink.ts'

export type Pass = {
  caughtUp(): Promise<void>
  /** Stops reading, writes what was read, keeps the fold. */
  finish(): Promise<void>
  stop(): Promise<void>
  /** Resolves when the pass must be begun again, rejects when the log cannot be followed. */
  done: Promise<'restart'>
}

/** What another pass, or standing by, mends. */
const endsPass = (error: unknown): boolean => error instanceof RestartError || error instanceof NewerBuildError

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
  const snapshot = snapshots?.of(group, stateVersion())
  const from = snapshot ? await openBehind(snapshot, log, marks) : {}
  const state = snapshot ? storedProjection(snapshot) : initialProjection()
  const spare = noRows()
  let rows = noRows()
  let reached = new Map<string, Partition & Mark>()
  let pending = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()
  const ended = Promise.withResolvers<'restart'>()
  ended.promise.catch(() => undefined)

  /** A database that is further has nothing to fear; one that is behind needs rows that are folded already. */
  const adopt = (now: ReadonlyMap<string, Mark>, known: Map<string, Mark>): void => {
    for (const [key, { next }] of known) if ((now.get(key)?.next ?? 0) < next) throw new RestartError()
    for (const [key, mark] of now) known.set(key, mark)
  }

  const markOf = (at: Partition): Mark => marks.get(partitionKey(at)) ?? { next: 0, last: '' }

  const writeOut = async (out: ProjectedRows, to: readonly (Partition & Mark)[]): Promise<void> => {
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
        // Lost to another projection, or written by a try whose answer never came, or the database is another one.
        adopt(await sink.marks(log), marks)
        return false
      })
      if (written) for (const advance of advances) marks.set(partitionKey(advance), advance.to)
      if (written) return
    }
  }

  const queue = (work: () => Promise<void>): Promise<void> => {
    writing = writing.then(work)
    writing.catch((error: unknown) => {
      if (endsPass(error)) ended.resolve('restart')
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
      return session.use(async (sink) => adopt(await sink.marks(log), marks))
    }).catch(() => undefined)
  }

  /** One transaction at a time; what is read meanwhile waits for the next one. */
  const flush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    if (pending === 0) return writing
    const [out, to] = [rows, [...reached.values()]]
    rows = noRows()
    reached = new Map()
    pending = 0
    return queue(() => writeOut(out, to))
  }

  const take = (
    at: { topic: LogRecord['topic']; partition: number; offset: number; id: string },
    add: (rows: ProjectedRows) => void,
  ): Promise<void> | undefined => {
    if (at.offset < markOf(at).next) {
      add(spare)
      for (const list of Object.values(spare)) list.length = 0
      return undefined
    }
    add(rows)
    reached.set(partitionKey(at), { topic: at.topic, partition: at.partition, next: at.offset + 1, last: at.id })
    pending += 1
    if (pending >= batch) {
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
      const room = take(logged, (into) => project(state, logged, into))
      const kept = snapshot?.after(logged, flush)
      return room && kept ? Promise.all([room, kept]).then(() => undefined) : (room ?? kept)
    },
    onBad: (record) =>
      void take({ ...record, id: recordId(record) }, (into) =>
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
    if (endsPass(error)) ended.resolve('restart')
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

/** Where to read on from. A database that holds less than the fold has seen is filled from the start. */
const openBehind = async (snapshot: Snapshot, log: EventLog, marks: ReadonlyMap<string, Mark>): Promise<Offsets> => {
  const from = await snapshot.open(log)
  const ahead = PROJECTED.some((topic) =>
    Object.entries(from[topic] ?? {}).some(
      ([partition, next]) => next > (marks.get(partitionKey({ topic, partition: Number(partition) }))?.next ?? 0),
    ),
  )
  if (!ahead) return from
  await snapshot.startOver('PostgreSQL holds less')
  return {}
}
