/**
 * The names of answers and prompts on the disk, beside the gateway's snapshot. Names of folded records wait in memory until
 * the next snapshot, which is taken once they are written: what a snapshot covers is in the table. After a kill the records
 * behind the snapshot add the same rows again.
 */
import {
  addToGeneration,
  bytesOf,
  HELD,
  namesIn,
  noNames,
  UNFILLED,
  type HeldNames,
  type NameFigures,
  type NameHolder,
  type NameLimits,
  type ReadResult,
} from './core/held-names.ts'
import { generationPrefix, namePrefix, nameOfRow, readRow, rowOf, sizeOfRow, type NameRows } from './name-rows.ts'

/** Where the state of the table is kept: in the gateway's snapshot. */
type Kept = { get(key: string): HeldNames | undefined; set(key: string, value: HeldNames): void }

export type NameTableOptions = {
  limits: NameLimits
  /** ms since the epoch. */
  now: () => number
  /** Opens the rows beside the snapshot's file; null, after a message, where that is not possible. */
  open: (snapshotPath: string) => Promise<NameRows | null>
  /** Removes them where none are to be held. */
  remove?: (snapshotPath: string) => void
  logLine?: (line: string) => void
  /** The longest that a request waits for a read, ms. */
  readMs?: number
}

/** `number`: of the state that this build stores, which stands in the mark; `names`: the first whose rows it continues. */
type Versions = { number: number; names: number }

/** A session with a name, and those that had it before. */
type Seen = { session: string; at: number; before: Seen | undefined }

/** Rows that are read of a name and generation, and sessions that a request gets: the latest. */
const ROWS_READ = 64
const MOST_FOUND = 32
const READ_MS = 2_000
const INCOMPLETE: HeldNames = { ...noNames(), isIncomplete: true }

export class NameTable implements NameHolder {
  readonly #options: NameTableOptions
  readonly #kept: Kept
  readonly #versions: Versions
  #held = noNames()
  #rows: NameRows | null = null
  /** By name, the sessions that wait to be written, and those that are being written. */
  #pending = new Map<string, Seen>()
  #writing = new Map<string, Seen>()
  #rowsPending: Uint8Array[] = []
  #removing: Promise<void> = Promise.resolve()
  #expired = 0
  readonly #reads: Record<ReadResult, number> = { found: 0, none: 0, failed: 0 }

  constructor(options: NameTableOptions, kept: Kept, versions: Versions = { number: 1, names: 1 }) {
    this.#options = options
    this.#kept = kept
    this.#versions = versions
  }

  /**
   * Opens the table of a snapshot that was just opened. Not null: why it does not have the names that the snapshot covers, so
   * that the log must be read from its start into an empty one, which `reset` makes. `snapshotPath` null: without a file nothing
   * is kept. May be called again for another snapshot of the same path.
   */
  async open(snapshotPath: string | null, isNew: boolean): Promise<string | null> {
    const { limits, open, remove } = this.#options
    if (snapshotPath === null) return null
    if (limits.ms === 0 || limits.bytes === 0) {
      remove?.(snapshotPath)
      return null
    }
    this.#rows ??= await open(snapshotPath)
    if (!this.#rows) return null
    if (isNew || this.isUnfilled) {
      const state = this.isUnfilled ? UNFILLED : noNames()
      await this.reset()
      if (!this.#rows) this.#kept.set(HELD.key, state)
      return null
    }
    this.#held = structuredClone(this.#kept.get(HELD.key)) ?? noNames()
    if (this.#held.isIncomplete) return 'the table of names beside it lacks some'
    let mark: string | null
    try {
      mark = await this.#rows.mark()
    } catch (error) {
      return `the table of names is damaged and is removed: ${(error as Error).message}`
    }
    // Builds without a number wrote none.
    const [log = '', added = '0', number = '1'] = (mark ?? '').split(' ')
    const written = Number(number)
    if (log !== '' && !(written >= this.#versions.names && written <= this.#versions.number))
      return `the table of names beside it is of version ${number}`
    if (this.#held.added > 0 && (log !== this.#held.log || Number(added) < this.#held.added))
      return 'the table of names beside it is another one'
    let before = 0
    for (const { number } of this.#held.generations) {
      if (number > before + 1) this.#remove(generationPrefix(before + 1), generationPrefix(number))
      before = number
    }
    return null
  }

  /** The state is that of a checkpoint: the names of its turns are to be added once `open` has resolved. */
  get isUnfilled(): boolean {
    return this.#kept.get(HELD.key)?.isUnfilled === true
  }

  /** Whether names are added and found. */
  get isOpen(): boolean {
    return this.#rows !== null
  }

  /** Empties the table. Where that fails, nothing is added. */
  async reset(): Promise<void> {
    this.#held = noNames()
    this.#kept.set(HELD.key, this.#held)
    try {
      await this.#rows?.empty()
    } catch (error) {
      this.#rows = null
      this.#options.logLine?.(`names of answers are kept in memory only: ${(error as Error).message}`)
    }
  }

  /** Adds names of a turn that was folded, in the order of the log. `at`: ms since the epoch; `record`: its id. */
  add(names: readonly string[], at: number, session: string, record: string): void {
    if (names.length === 0) return
    if (!this.#rows) {
      this.#kept.set(HELD.key, INCOMPLETE)
      return
    }
    if (this.#held.log === '') this.#held.log = record
    const bytes = names.length * sizeOfRow(session)
    const { generation, expired } = addToGeneration(this.#held, this.#options.limits, at, names.length, bytes)
    this.#kept.set(HELD.key, this.#held)
    for (const name of names) {
      this.#rowsPending.push(rowOf(namePrefix(generation, name), at, session))
      const before = this.#pending.get(name)
      this.#pending.set(name, { session, at, before: before?.session === session ? before.before : before })
    }
    for (const { number, names: count } of expired) {
      this.#expired += count
      this.#remove(generationPrefix(number), generationPrefix(number + 1))
    }
  }

  /** Writes what waits. To be awaited before a snapshot that covers it. Where that fails, nothing is added any more. */
  async write(): Promise<void> {
    const rows = this.#rowsPending
    if (!this.#rows || rows.length === 0) return
    this.#rowsPending = []
    this.#writing = this.#pending
    this.#pending = new Map()
    try {
      await this.#rows.put(rows, `${this.#held.log} ${this.#held.added} ${this.#versions.number}`)
    } catch (error) {
      this.#end(`names of answers are no longer written: ${(error as Error).message}`)
    } finally {
      this.#writing = new Map()
    }
  }

  /** The sessions with any of the names that have not expired, the likeliest last. `names`: the most telling last. Waits `readMs` at most, and then finds none. */
  async find(names: readonly string[]): Promise<string[]> {
    if (!this.#rows || names.length === 0) return []
    const late = Promise.withResolvers<null>()
    const timer = setTimeout(() => late.resolve(null), this.#options.readMs ?? READ_MS)
    try {
      const rows = this.#rows
      const read = Promise.all(this.prefixes(names).map((prefix) => rows.lastUnder(prefix, ROWS_READ)))
      const found = await Promise.race([read, late.promise])
      read.catch(() => undefined)
      const sessions = this.sessionsIn(names, found?.flat() ?? [])
      this.#reads[found === null ? 'failed' : sessions.length > 0 ? 'found' : 'none'] += 1
      return sessions
    } catch (error) {
      this.#reads.failed += 1
      this.#damaged((error as Error).message)
      return this.sessionsIn(names, [])
    } finally {
      clearTimeout(timer)
    }
  }

  /** What the rows of these names begin with. */
  prefixes(names: readonly string[]): Uint8Array[] {
    return this.#held.generations.flatMap(({ number }) => names.map((name) => namePrefix(number, name)))
  }

  /**
   * The sessions of `rows`, and of names that are not written yet: at most MOST_FOUND, those with more names, later names of the
   * list and of a later time last.
   */
  sessionsIn(names: readonly string[], rows: readonly Uint8Array[]): string[] {
    const oldest = this.#options.now() - this.#options.limits.ms
    const found = new Map<string, { names: number; at: number }>()
    const seen = (name: number, session: string, at: number): void => {
      if (at < oldest) return
      const before = found.get(session)
      found.set(session, { names: (before?.names ?? 0) | (1 << name), at: Math.max(at, before?.at ?? 0) })
    }
    const places = new Map(names.map((name, place) => [nameOfRow(namePrefix(0, name)), place]))
    for (const row of rows) {
      const read = readRow(row)
      if (read) seen(places.get(nameOfRow(row)) ?? 0, read.session, read.at)
      else this.#damaged('a row does not match its checksum')
    }
    for (const waiting of [this.#writing, this.#pending])
      for (const [place, name] of names.entries())
        for (let one = waiting.get(name); one; one = one.before) seen(place, one.session, one.at)
    return [...found]
      .sort(([a, x], [b, y]) => x.names - y.names || x.at - y.at || (a < b ? -1 : 1))
      .slice(-MOST_FOUND)
      .map(([session]) => session)
  }

  figures(): NameFigures {
    const held = this.#rows ? this.#held : noNames()
    return { held: namesIn(held), bytes: bytesOf(held), expired: this.#expired, reads: { ...this.#reads } }
  }

  /** What waits is lost unless it was written. */
  async close(): Promise<void> {
    const rows = this.#rows
    this.#rows = null
    await this.#removing
    await rows?.close()
  }

  #remove(from: Uint8Array, to: Uint8Array): void {
    const rows = this.#rows
    this.#removing = this.#removing
      .then(() => rows?.remove(from, to))
      .catch((error: unknown) => {
        const { message } = error as Error
        if (/no space left/i.test(message)) this.#options.logLine?.(`expired names were not removed: ${message}`)
        else this.#damaged(message)
      })
  }

  /** Nothing is found and added any more. The next start reads the log again, since the mark no longer fits the snapshot. */
  #end(problem: string): void {
    const rows = this.#rows
    if (!rows) return
    this.#options.logLine?.(`${problem}; the next start reads the log again`)
    this.#rows = null
    this.#pending = new Map()
    this.#rowsPending = []
    this.#removing = this.#removing
      .then(() => rows.put([], ''))
      .catch(() => undefined)
      .then(() => rows.close())
      .catch(() => undefined)
  }

  #damaged(problem: string): void {
    this.#end(`the table of names is damaged (${problem})`)
  }
}
