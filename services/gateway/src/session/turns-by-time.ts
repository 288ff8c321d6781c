/** Turns of a stored state in the order of their times: in a temporary SQLite file, so that memory does not grow with them. */
import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { NamedBy } from './core/session-index.ts'

export type TimedTurn = { session: string; place: number; at: number; names: string[] }
/** `turns`: how many it has; `at`: of the last of them. */
export type TimedSession = { session: string; turns: number; at: number }

const TABLES = `PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;
CREATE TABLE turns (at, session, place, names, PRIMARY KEY (at, session, place)) WITHOUT ROWID;
CREATE TABLE sessions (session PRIMARY KEY, turns, at) WITHOUT ROWID;
BEGIN`

export class TurnsByTime {
  readonly #path: string
  readonly #db: DatabaseSync
  readonly #addTurn
  readonly #addSession

  /** `path`: of a file that is replaced, and removed by `close`. */
  constructor(path: string) {
    this.#path = path
    rmSync(path, { force: true })
    this.#db = new DatabaseSync(path)
    this.#db.exec(TABLES)
    this.#addTurn = this.#db.prepare('INSERT INTO turns VALUES (?, ?, ?, ?)')
    this.#addSession = this.#db.prepare(
      'INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET turns = excluded.turns, at = max(at, excluded.at)',
    )
  }

  /** Some turns of a session in their order, of which the first is in the place `first`. */
  add(session: string, first: number, turns: readonly NamedBy[], namesOf: (turn: NamedBy) => readonly string[]): void {
    for (const [i, turn] of turns.entries())
      this.#addTurn.run(turn.finishedAt, session, first + i, JSON.stringify(namesOf(turn)))
    const at = turns.reduce((latest, { finishedAt }) => Math.max(latest, finishedAt), 0)
    if (turns.length > 0) this.#addSession.run(session, first + turns.length, at)
  }

  /** The sessions with the latest turns, at most `most`, the latest first. */
  *latest(most: number): Generator<TimedSession> {
    const rows = this.#db.prepare('SELECT session, turns, at FROM sessions ORDER BY at DESC, session LIMIT ?')
    yield* rows.iterate(most) as unknown as Iterable<TimedSession>
  }

  /** All turns, the oldest first. */
  *turns(): Generator<TimedTurn> {
    const rows = this.#db.prepare('SELECT at, session, place, names FROM turns ORDER BY at, session, place')
    for (const row of rows.iterate()) {
      const { names, ...turn } = row as unknown as Omit<TimedTurn, 'names'> & { names: string }
      yield { ...turn, names: JSON.parse(names) as string[] }
    }
  }

  close(): void {
    this.#db.close()
    rmSync(this.#path, { force: true })
  }
}
