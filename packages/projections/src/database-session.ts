/** A connection to PostgreSQL that is reopened after failures. An outage is reported once. */
import { Backoff } from '@instar/log/backoff'
import type { DatabaseConnection } from './postgres/start.ts'
import { NewerBuildError, openSink, type Sink } from './sink.ts'

/**
 * The database is behind the fold of this pass, or has rows of another log: the fold must restart from the beginning.
 */
export class RestartError extends Error {}
export class StoppedError extends Error {}

/** The innermost cause: drizzle wraps PostgreSQL's error. */
const rootOf = (error: unknown): Error =>
  (error as Error).cause instanceof Error ? rootOf((error as Error).cause) : (error as Error)

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

export type DatabaseSession = {
  /** Called when a connection is lost. The server may then have lost the last commits. */
  onBroken: () => void
  /** Runs `work`, and repeats it on a new connection until it succeeds. */
  use<T>(work: (sink: Sink) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export const createDatabaseSession = (
  connection: DatabaseConnection,
  signal: AbortSignal,
  logLine: (line: string) => void,
): DatabaseSession => {
  let sink: Sink | undefined
  let outageReported = false
  const close = async (): Promise<void> => {
    const closing = sink
    sink = undefined
    await closing?.close().catch(() => undefined)
  }
  const open = async (): Promise<Sink> => {
    const opened = await openSink(connection, logLine)
    void opened.ended.then(() => {
      if (sink === opened) sink = undefined
      if (!signal.aborted) session.onBroken()
    })
    return opened
  }
  const session: DatabaseSession = {
    onBroken: () => undefined,
    async use(work) {
      const backoff = new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })
      for (;;) {
        if (signal.aborted) throw new StoppedError('the projection has ended')
        try {
          sink ??= await open()
          const result = await work(sink)
          if (outageReported) logLine('projections: writing to PostgreSQL succeeds again')
          outageReported = false
          return result
        } catch (error) {
          if (error instanceof RestartError || error instanceof StoppedError || error instanceof NewerBuildError)
            throw error
          if (!outageReported)
            logLine(`projections: cannot write to PostgreSQL, retrying until it succeeds: ${rootOf(error).message}`)
          outageReported = true
          await close()
          await backoff.wait(signal)
        }
      }
    },
    close,
  }
  return session
}
