/**
 * A pass over a database that a newer build has migrated: it writes nothing and reports the positions in the database.
 * If these stay behind the log without progress, no process fills the database, and the pass fails with
 * `database_newer`.
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
  /** Milliseconds that the database may stay behind the log without progress. */
  patience: number
  logLine(line: string): void
  /** Called with the positions in the database after each poll. */
  onMarks(marks: ReadonlyMap<string, Mark>): void
}

const POLL_MS = 500

/** The number of records between the positions in the database and the end of the log. */
const lagOf = (ends: Offsets, marks: ReadonlyMap<string, Mark>): number =>
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

export const standBy = ({ log, session, patience, logLine, onMarks }: StandbyParts): Pass => {
  const stopping = new AbortController()
  const { signal } = stopping
  let waiting: { ends: Offsets; resolve(): void }[] = []

  const watch = async (): Promise<'restart'> => {
    let progressAt = performance.now()
    let progress = ''
    logLine('projections: a newer build has migrated the database; this build writes nothing and is on standby')
    for (;;) {
      const { newer, marks } = await session.use((sink) => sink.readMarks())
      if (!newer) return 'restart'
      onMarks(marks)
      const ends = await log.ends(PROJECTED)
      const current = progressOf(marks)
      if (current !== progress || lagOf(ends, marks) === 0) progressAt = performance.now()
      progress = current
      for (const caller of waiting) if (lagOf(caller.ends, marks) === 0) caller.resolve()
      waiting = waiting.filter((caller) => lagOf(caller.ends, marks) > 0)
      if (performance.now() - progressAt > patience)
        throw new InstarError(
          'database_newer',
          `a newer build has migrated the database, which is ${lagOf(ends, marks)} records behind the log and has made no progress for ${Math.round(patience / 1000)} s`,
        )
      await pause(Math.min(POLL_MS, patience), undefined, { signal }).catch(() => undefined)
      if (signal.aborted) throw new StoppedError('the projection was stopped')
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
        done.then(() => reject(new StoppedError('a new pass has started')), reject)
      })
    },
  }
}
