/**
 * The projection: follows the log, folds every record, writes the rows of those that the database does not hold yet.
 * Its fold is never kept ahead of the database, which would then lack the rows in between. It only ever reads the
 * log, so whatever happens to PostgreSQL disturbs nobody: it waits, connects again, goes on; a database that is gone
 * is filled anew.
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
  /** Called once when PostgreSQL cannot be written to and once when it can again. */
  say?(line: string): void
  /** Events in one transaction at most. Default 500. */
  batch?: number
  /** How long an event may wait for others to share its transaction, in milliseconds. Default 20. */
  linger?: number
  group?: string
  /** How long PostgreSQL may stay behind, in milliseconds, while it is a newer build's to fill. Default a minute. */
  patience?: number
  /** Where the fold is kept between two lives; without it the log is read from its start. */
  snapshots?: SnapshotStore | undefined
}

export type Projections = {
  /** Resolves when all that was on the log when it is called is in PostgreSQL. Rejects once it has ended. */
  caughtUp(): Promise<void>
  /** The positions in PostgreSQL by `partitionKey`, as far as this process has read them; null before that. */
  marks(): ReadonlyMap<string, Mark> | null
  /**
   * Writes what was read, then ends. Resolves soon also while PostgreSQL is down, and after a failure, which rejects
   * `done`.
   */
  stop(): Promise<void>
  /**
   * Rejects when the log cannot be followed: a gap in a chain, a record of a newer build; with `database_newer` where
   * a newer build has brought PostgreSQL further and does not fill it. Resolves after `stop`.
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
    say = () => undefined,
  } = options
  const stopping = new AbortController()
  const session = createDatabaseSession(connection, stopping.signal, say)
  let current = Promise.withResolvers<Pass>()
  let marks: ReadonlyMap<string, Mark> | null = null

  const run = async (): Promise<void> => {
    try {
      while (!stopping.signal.aborted) {
        const held = await session
          .use((sink) => sink.marks(log))
          .catch((error: unknown) => {
            if (error instanceof NewerBuildError) return null
            throw error
          })
        marks = held
        const pass = held
          ? await startPass({ log, session, marks: held, batch, linger, group, snapshots })
          : standBy({
              log,
              session,
              patience,
              say,
              told: (now) => {
                marks = now
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
      current.reject(new StoppedError('the projection has ended'))
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
        if (stopping.signal.aborted) throw new StoppedError('the projection has ended')
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
