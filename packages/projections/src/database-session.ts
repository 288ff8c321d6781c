/** A connection to PostgreSQL that reconnects until it succeeds, and reports an outage once. */
import { Backoff } from '@instar/log/backoff'
import type { DatabaseConnection } from './postgres/start.ts'
import { NewerBuildError, openSink, type Sink } from './sink.ts'

/** The database is behind the fold of this pass, or holds another history: fold again from the start. */
export class RestartError extends Error {}
export class StoppedError extends Error {}

/** drizzle wraps PostgreSQL's error. */
const rootOf = (error: unknown): Error =>
  (error as Error).cause instanceof Error ? rootOf((error as Error).cause) : (error as Error)

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

export type DatabaseSession = {
  /** Called when a connection has broken: the last commit may be lost with the server. */
  onBroken: () => void
  /** Runs `work`, and again on a new connection until it succeeds. */
  use<T>(work: (sink: Sink) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export const createDatabaseSession = (
  connection: DatabaseConnection,
  signal: AbortSignal,
  say: (line: string) => void,
): DatabaseSession => {
  let sink: Sink | undefined
  let silent = false
  const drop = async (): Promise<void> => {
    const dropped = sink
    sink = undefined
    await dropped?.close().catch(() => undefined)
  }
  const open = async (): Promise<Sink> => {
    const opened = await openSink(connection)
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
          if (silent) say('projections: PostgreSQL takes writes again')
          silent = false
          return result
        } catch (error) {
          if (error instanceof RestartError || error instanceof StoppedError || error instanceof NewerBuildError)
            throw error
          if (!silent)
            say(`projections: cannot write to PostgreSQL, trying again until it works: ${rootOf(error).message}`)
          silent = true
          await drop()
          await backoff.wait(signal)
        }
      }
    },
    close: drop,
  }
  return session
}
