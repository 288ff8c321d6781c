/**
 * The projection: follows the log, folds every record, and writes the rows that the database does not have. A snapshot
 * of the fold is never ahead of the database. The projection only reads the log, so failures of PostgreSQL affect no
 * other service: it reconnects and continues, and fills an empty database from the start of the log.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { EventLog } from '@instar/log/port'
import type { SnapshotStore } from '@instar/log/snapshots/store'
import type { DatabaseConnection } from './postgres/start.ts'
import { createDatabaseSession, StoppedError } from './database-session.ts'
import { startPass, type Pass } from './pass.ts'
import { NewerBuildError, type Mark } from './sink.ts'
import { standBy } from './standby.ts'

type ProjectionsOptions = {
  log: EventLog
  connection: DatabaseConnection
  /** Receives lines for the process's log. */
  logLine?(line: string): void
  /** Most records in one transaction. Default 500. */
  batch?: number
  /** Milliseconds that a record waits for others to share its transaction. Default 20. */
  linger?: number
  /** Name of the follower and of its snapshot. */
  group?: string
  /** Milliseconds that a database of a newer build may stay behind the log without progress. Default 60,000. */
  patience?: number
  /** The store of snapshots of the fold. Without it the log is read from its start. */
  snapshots?: SnapshotStore | undefined
}

export type Projections = {
  /**
   * Resolves when all records that are on the log at the call are in PostgreSQL. Rejects if the projection has ended.
   */
  caughtUp(): Promise<void>
  /** The positions in PostgreSQL by `partitionKey`, as last read or written; null before the first read. */
  marks(): ReadonlyMap<string, Mark> | null
  /** Writes the records that were read and ends. While PostgreSQL is unavailable it resolves without writing them. */
  stop(): Promise<void>
  /**
   * Resolves after `stop`. Rejects if the log cannot be followed (a gap in a chain, an unknown record), and with
   * `database_newer` if a newer build has migrated the database and does not fill it.
   */
  readonly done: Promise<void>
}

export const startProjections = (options: ProjectionsOptions): Projections => {
  const {
    log,
    connection,
    batch = 500,
    linger = 20,
    group = 'projections',
    snapshots,
    patience = 60_000,
    logLine = () => undefined,
  } = options
  const stopping = new AbortController()
  const session = createDatabaseSession(connection, stopping.signal, logLine)
  let current = Promise.withResolvers<Pass>()
  let marks: ReadonlyMap<string, Mark> | null = null

  const run = async (): Promise<void> => {
    try {
      while (!stopping.signal.aborted) {
        const stored = await session
          .use((sink) => sink.marks(log))
          .catch((error: unknown) => {
            if (error instanceof NewerBuildError) return null
            throw error
          })
        marks = stored
        const pass = stored
          ? await startPass({ log, session, marks: stored, batch, linger, group, snapshots })
          : standBy({
              log,
              session,
              patience,
              logLine,
              onMarks: (current) => {
                marks = current
              },
            })
        current.resolve(pass)
        const ended = await Promise.race([pass.done, aborted(stopping.signal)])
        if (ended === 'stop') await pass.stop()
        else current = Promise.withResolvers<Pass>()
      }
    } catch (error) {
      if (!(error instanceof StoppedError)) throw error
    } finally {
      stopping.abort()
      await session.close()
      current.promise.catch(() => undefined)
      current.reject(new StoppedError('the projection was stopped'))
    }
  }
  const done = run()
  done.catch(() => undefined)

  return {
    done,
    marks: () => marks,
    async caughtUp() {
      for (;;) {
        const pass = await current.promise
        if (stopping.signal.aborted) throw new StoppedError('the projection was stopped')
        const reached = await pass.caughtUp().then(
          () => true,
          (error: unknown) => {
            if (stopping.signal.aborted) throw error
            return false
          },
        )
        if (reached) return
        await pass.done.catch(() => undefined)
      }
    },
    async stop() {
      const pass = await Promise.race([current.promise.catch(() => undefined), pause(0)])
      if (pass) await Promise.race([pass.finish().catch(() => undefined), pause(2_000, undefined, { ref: false })])
      stopping.abort()
      await done.catch(() => undefined)
    },
  }
}

const aborted = (signal: AbortSignal): Promise<'stop'> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve('stop')
    signal.addEventListener('abort', () => resolve('stop'), { once: true })
  })
