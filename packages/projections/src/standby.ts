/**
 * The behaviour of an older build beside a newer one that has migrated the database: it writes nothing and reports
 * the database's positions. When these stay behind the log, no process fills the database, and this one ends with an
 * error.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { InstarError } from '@instar/events/errors'
import type { EventLog, Offsets } from '@instar/log/port'
import { StoppedError, type DatabaseSession } from './database-session.ts'
import type { Pass } from './pass.ts'
import { PROJECTED } from './project.ts'
import { partitionKey, type Mark } from './sink.ts'

type StandbyParts = {
  log: EventLog
  session: DatabaseSession
  /** Milliseconds that the database may stay behind without moving. */
  patience: number
  say(line: string): void
  /** The marks as they were seen last. */
  told(marks: ReadonlyMap<string, Mark>): void
}

const LOOK_MS = 500

const behind = (ends: Offsets, marks: ReadonlyMap<string, Mark>): number =>
  PROJECTED.reduce(
    (sum, topic) =>
      sum +
      Object.entries(ends[topic] ?? {}).reduce(
        (all, [partition, end]) =>
          all + Math.max(0, end - (marks.get(partitionKey({ topic, partition: Number(partition) }))?.next ?? 0)),
        0,
      ),
    0,
  )

const progressOf = (marks: ReadonlyMap<string, Mark>): string =>
  [...marks]
    .map(([key, { next }]) => `${key} ${next}`)
    .sort((a, b) => (a < b ? -1 : 1))
    .join()

export const standBy = ({ log, session, patience, say, told }: StandbyParts): Pass => {
  const stopping = new AbortController()
  const { signal } = stopping
  let waiting: { ends: Offsets; resolve(): void }[] = []

  const watch = async (): Promise<'restart'> => {
    let movedAt = performance.now()
    let progress = ''
    say('projections: a newer build has brought the database further; this one writes nothing and stands by')
    for (;;) {
      const { newer, marks } = await session.use((sink) => sink.look())
      if (!newer) return 'restart'
      told(marks)
      const ends = await log.ends(PROJECTED)
      const now = progressOf(marks)
      if (now !== progress || behind(ends, marks) === 0) movedAt = performance.now()
      progress = now
      for (const one of waiting) if (behind(one.ends, marks) === 0) one.resolve()
      waiting = waiting.filter((one) => behind(one.ends, marks) > 0)
      if (performance.now() - movedAt > patience)
        throw new InstarError(
          'database_newer',
          `a newer build has brought PostgreSQL further, which is ${behind(ends, marks)} records behind the log and has not moved for ${Math.round(patience / 1000)} s`,
        )
      await pause(Math.min(LOOK_MS, patience), undefined, { signal }).catch(() => undefined)
      if (signal.aborted) throw new StoppedError('the projection has ended')
    }
  }

  const done = watch()
  done.catch(() => undefined)
  const stop = async (): Promise<void> => {
    stopping.abort()
    await done.catch(() => undefined)
  }
  return {
    done,
    finish: stop,
    stop,
    async caughtUp() {
      const ends = await log.ends(PROJECTED)
      return new Promise((resolve, reject) => {
        waiting.push({ ends, resolve })
        done.then(() => reject(new StoppedError('another pass begins')), reject)
      })
    },
  }
}
