/**
 * The projection: follows the log from its start, folds every record in memory, writes the rows of those
 * that the database does not hold yet. It only ever reads the log, so whatever happens to PostgreSQL
 * disturbs nobody: it waits, connects again, goes on; a database that is gone is filled anew.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { recordId } from '@instar/events/ids'
import type { Logged } from '@instar/events/records'
import { followEvents } from '@instar/log/follow-events'
import type { Follower } from '@instar/log/follow'
import type { EventLog, LogRecord } from '@instar/log/port'
import type { Connection } from './postgres/start.ts'
import { initialProjection, project, PROJECTED } from './project.ts'
import { noRows, type Rows } from './rows.ts'
import { openSink, partitionKey, type Advance, type Mark, type Partition, type Sink } from './sink.ts'

export type ProjectionsOptions = {
  log: EventLog
  connection: Connection
  /** Told once when PostgreSQL cannot be written to and once when it can again. */
  say?(line: string): void
  /** Events in one transaction at most. Default 500. */
  batch?: number
  /** How long an event may wait for others to share its transaction, in milliseconds. Default 20. */
  linger?: number
  group?: string
}

export type Projections = {
  /** Resolves when all that was on the log when it is called is in PostgreSQL. Rejects once it has ended. */
  caughtUp(): Promise<void>
  /** Writes what was read, then ends. Resolves soon even when PostgreSQL is gone, and after a failure, which `done` tells. */
  stop(): Promise<void>
  /** Rejects when the log cannot be followed: a gap in a chain, a record of a newer build. Resolves after `stop`. */
  readonly done: Promise<void>
}

/** The database is behind what this pass has folded, or went another way: fold again from the start. */
class Restart extends Error {}
class Stopped extends Error {}

/** drizzle wraps what PostgreSQL said. */
const rootOf = (error: unknown): Error => ((error as Error).cause instanceof Error ? rootOf((error as Error).cause) : error as Error)

const LONGEST_WAIT = 30_000

export const startProjections = (options: ProjectionsOptions): Projections => {
  const { log, connection, batch = 500, linger = 20, group = 'projections' } = options
  const stopping = new AbortController()
  const link = createLink(connection, stopping.signal, options.say ?? (() => undefined))
  let current = Promise.withResolvers<Pass>()

  const run = async (): Promise<void> => {
    try {
      while (!stopping.signal.aborted) {
        const marks = await link.use((sink) => sink.marks(log))
        const pass = await startPass({ log, link, marks, batch, linger, group })
        current.resolve(pass)
        const ended = await Promise.race([pass.done, aborted(stopping.signal)])
        if (ended === 'stop') await pass.stop()
        else current = Promise.withResolvers<Pass>()
      }
    } catch (error) {
      if (!(error instanceof Stopped)) throw error
    } finally {
      stopping.abort()
      await link.close()
      current.promise.catch(() => undefined)
      current.reject(new Stopped('the projection has ended'))
    }
  }
  const done = run()
  done.catch(() => undefined)

  return {
    done,
    async caughtUp() {
      for (;;) {
        const pass = await current.promise
        if (stopping.signal.aborted) throw new Stopped('the projection has ended')
        const reached = await pass.caughtUp().then(() => true, (error: unknown) => {
          if (stopping.signal.aborted) throw error
          return false
        })
        if (reached) return
        await pass.done.catch(() => undefined)
      }
    },
    async stop() {
      const pass = await Promise.race([current.promise.catch(() => undefined), pause(0)])
      if (pass) await Promise.race([pass.flush().catch(() => undefined), pause(2_000, undefined, { ref: false })])
      stopping.abort()
      await done.catch(() => undefined)
    },
  }
}

const aborted = (signal: AbortSignal): Promise<'stop'> => new Promise((resolve) => {
  if (signal.aborted) resolve('stop')
  signal.addEventListener('abort', () => resolve('stop'), { once: true })
})

type Link = {
  /** Does the work on a connection, again on a new one for as long as connecting or working fails. */
  use<T>(work: (sink: Sink) => Promise<T>): Promise<T>
  close(): Promise<void>
}

const createLink = (connection: Connection, signal: AbortSignal, say: (line: string) => void): Link => {
  let sink: Sink | undefined
  let silent = false
  const drop = async (): Promise<void> => {
    const dropped = sink
    sink = undefined
    await dropped?.close().catch(() => undefined)
  }
  return {
    async use(work) {
      for (let wait = 50; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
        if (signal.aborted) throw new Stopped('the projection has ended')
        try {
          sink ??= await openSink(connection)
          const result = await work(sink)
          if (silent) say('projections: PostgreSQL takes writes again')
          silent = false
          return result
        } catch (error) {
          if (error instanceof Restart || error instanceof Stopped) throw error
          if (!silent) say(`projections: cannot write to PostgreSQL, trying again until it works: ${rootOf(error).message}`)
          silent = true
          await drop()
          await pause(wait, undefined, { signal }).catch(() => undefined)
        }
      }
    },
    close: drop,
  }
}

type Pass = {
  caughtUp(): Promise<void>
  flush(): Promise<void>
  stop(): Promise<void>
  /** Resolves when the pass must be begun again, rejects when the log cannot be followed. */
  done: Promise<'restart'>
}

type PassParts = { log: EventLog; link: Link; marks: Map<string, Mark>; batch: number; linger: number; group: string }

const startPass = async ({ log, link, marks, batch, linger, group }: PassParts): Promise<Pass> => {
  const state = initialProjection()
  const spare = noRows()
  let rows = noRows()
  let reached = new Map<string, Partition & Mark>()
  let pending = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()
  const ended = Promise.withResolvers<'restart'>()
  ended.promise.catch(() => undefined)

  const markOf = (at: Partition): Mark => marks.get(partitionKey(at)) ?? { next: 0, last: '' }

  const writeOut = async (out: Rows, to: readonly (Partition & Mark)[]): Promise<void> => {
    for (;;) {
      const advances: Advance[] = to.filter((at) => markOf(at).next < at.next).map(({ topic, partition, next, last }) => ({ topic, partition, from: markOf({ topic, partition }), to: { next, last } }))
      if (advances.length === 0) return
      const written = await link.use(async (sink) => {
        if (await sink.write(out, advances)) return true
        // Lost to another projection, or written by a try whose answer never came, or the database is another one.
        const now = await sink.marks(log)
        if (advances.some((advance) => (now.get(partitionKey(advance))?.next ?? 0) < advance.from.next)) throw new Restart()
        for (const [key, mark] of now) marks.set(key, mark)
        return false
      })
      if (written) for (const advance of advances) marks.set(partitionKey(advance), advance.to)
      if (written) return
    }
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
    writing = writing.then(() => writeOut(out, to))
    writing.catch((error: unknown) => {
      if (error instanceof Restart) ended.resolve('restart')
      else ended.reject(error)
    })
    return writing
  }

  const take = (at: { topic: LogRecord['topic']; partition: number; offset: number; id: string }, add: (rows: Rows) => void): Promise<void> | undefined => {
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
    onEvent: (logged: Logged) => take(logged, (into) => project(state, logged, into)),
    onBad: (record) => void take({ ...record, id: recordId(record) }, (into) => into.ignored.push({ topic: record.topic, key: record.key, record_id: recordId(record), type: record.schema, why: 'unreadable', partition: record.partition, position: record.offset })),
  })
  follower.done.catch((error: unknown) => {
    if (error instanceof Restart) ended.resolve('restart')
    else ended.reject(error)
  })
  const done = ended.promise.finally(async () => {
    clearTimeout(timer)
    await follower.stop()
  })
  done.catch(() => undefined)
  return {
    done,
    flush,
    async caughtUp() {
      await follower.caughtUp()
      await flush()
    },
    async stop() {
      clearTimeout(timer)
      await follower.stop()
    },
  }
}
