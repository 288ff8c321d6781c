/**
 * The sessions of the fold of `turns`, of any length. The row of a session has its fields and its first turns; further
 * turns are in rows of as many. A snapshot writes the rows of which a turn changed, so that its cost and the longest step
 * do not depend on the length of a session. In memory a session is whole.
 */
import { addTurn, LruMap, type SessionState, type Table, type TurnState } from '@instar/events'
import {
  packFields,
  packTurns,
  unpackBrief,
  unpackFields,
  unpackTurn,
  type PackedFields,
  type PackedTurn,
  type TurnBrief,
} from './sessions.ts'
import { inSlices } from './slices.ts'
import type { FileRef, SnapshotPart, WorkStep } from './tables.ts'
import { fromBytes, toBytes } from './value.ts'

/** `count`: turns of the session; `turns`: the first of them. */
export type SessionRow = [fields: PackedFields, count: number, turns: PackedTurn[]]

/**
 * What changed of a session. `rows`: numbers of further rows with changed turns; the first one is always written. `anew`: the
 * file may have other rows of it; `isNew`: it has none.
 */
type Change = { session: SessionState | null; rows: Set<number> | null; anew: boolean; isNew: boolean }

const addRow = (change: Change, row: number): void => {
  if (row > 0) change.rows = (change.rows ?? new Set()).add(row)
}

/** Maximum number of cached keys that the file does not contain. */
const MAX_ABSENT = 4096
/** Entries of collected sessions are removed when there are more than these, or than twice those left the last time. */
const MIN_TO_COLLECT = 64

export class SessionTable implements Table<string, SessionState>, SnapshotPart {
  readonly #fileRef: FileRef
  readonly #name: string
  readonly #maxWeight: number
  readonly #rowTurns: number
  /** Null as the session: deleted. */
  #changed = new Map<string, Change>()
  #saving = new Map<string, Change>()
  readonly #cached = new LruMap<string, { session: SessionState; weight: number }>()
  #weight = 0
  /**
   * Sessions of several rows that left the cache and are still in memory: work that goes through more of them than the
   * cache holds, several times, reads each once.
   */
  readonly #evicted = new Map<string, WeakRef<SessionState>>()
  #evictedToCollect = MIN_TO_COLLECT
  #absent = new Set<string>()
  readonly #loading = new Map<string, { done: Promise<void> }>()

  /**
   * `maxWeight`: turns of the sessions in the cache. A longer session counts as half of them, so that the four that were
   * used last are there however long they are. `rowTurns`: turns in a row.
   */
  constructor(fileRef: FileRef, name: string, maxWeight: number, rowTurns: number) {
    this.#fileRef = fileRef
    this.#name = name
    this.#maxWeight = maxWeight
    this.#rowTurns = rowTurns
  }

  get(key: string): SessionState | undefined {
    const change = this.#changed.get(key) ?? this.#saving.get(key)
    if (change) return change.session ?? undefined
    const cached = this.#cached.get(key)
    if (cached) {
      this.#cached.set(key, cached)
      return cached.session
    }
    const session = this.#evicted.get(key)?.deref() ?? this.#read(key)
    if (session) this.#cache(key, session)
    return session
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  /** Another object than that of `get` replaces the session and all its turns. */
  set(key: string, session: SessionState): void {
    const before = this.#inMemory(key)
    const change = this.#change(key, session)
    if (before === session) return
    const isAbsent = this.#absent.delete(key)
    change.isNew = before === undefined && isAbsent
    change.anew ||= !change.isNew
    for (let row = 1; row * this.#rowTurns < session.turns.length; row += 1) addRow(change, row)
  }

  /** A turn of the session was added or changed; its session is `set` afterwards. */
  turnChanged(turn: TurnState): void {
    const session = this.get(turn.session)
    // If not in memory, `set` of its session writes all.
    if (session?.turns[turn.place] === turn)
      addRow(this.#change(turn.session, session), Math.floor(turn.place / this.#rowTurns))
  }

  delete(key: string): void {
    const change = this.#change(key, null)
    change.anew = true
    change.rows = null
  }

  /**
   * Reads a session of more than one row into memory in slices, so that a later `get` does not hold the event loop.
   * Undefined if there is nothing to wait for.
   */
  load(key: string): Promise<void> | undefined {
    const { file } = this.#fileRef
    const running = this.#loading.get(key)
    if (running || !file || this.#inMemory(key)) return running?.done
    const row = this.#rowOf(key)
    if (!row || row[1] <= this.#rowTurns) return undefined
    const session = unpackFields(row[0], key)
    const rows = Math.ceil(row[1] / this.#rowTurns)
    const loading = { done: Promise.resolve() }
    this.#loading.set(key, loading)
    loading.done = inSlices(numbers(rows), (n) => {
      // A use meanwhile has read the session itself. Without the file nothing is needed any more.
      if (this.#loading.get(key) !== loading || this.#fileRef.file !== file) return
      this.#add(session, n === 0 ? row[2] : this.#turnsOf(key, n))
    }).finally(() => {
      if (this.#loading.get(key) !== loading) return
      this.#loading.delete(key)
      if (session.turns.length === row[1]) this.#cache(key, session)
    })
    return loading.done
  }

  /**
   * Of a session of the file, the number of its turns, the first of them, and those from `from` on. Reads no more rows than
   * have these, and keeps nothing in memory; what changed since the last snapshot is not in it.
   */
  brief(key: string, from: number): { count: number; begin: TurnBrief; turns: TurnBrief[] } | undefined {
    const row = this.#rowOf(key)
    const begin = row?.[2][0]
    if (!row || !begin) return undefined
    const [, count, first] = row
    const turns: TurnBrief[] = []
    const startRow = Math.floor(from / this.#rowTurns)
    for (let n = startRow; n * this.#rowTurns < count; n += 1) {
      const packed = n === 0 ? first : this.#turnsOf(key, n)
      for (const one of n === startRow ? packed.slice(from % this.#rowTurns) : packed) turns.push(unpackBrief(one, key))
    }
    return { count, begin: unpackBrief(begin, key), turns }
  }

  takeChanges(): Iterable<WorkStep> {
    if (!this.#fileRef.file) return []
    this.#saving = this.#changed
    this.#changed = new Map()
    return this.#steps()
  }

  *commit(): Iterable<WorkStep> {
    for (const [key, { session }] of this.#saving)
      yield () => {
        if (session && !this.#changed.has(key)) this.#cache(key, session)
      }
    this.#saving = new Map()
  }

  rollback(): void {
    for (const [key, { rows, ...saved }] of this.#saving) {
      const later = this.#changed.get(key)
      this.#changed.set(key, {
        session: later ? later.session : saved.session,
        anew: saved.anew || later?.anew === true,
        isNew: false,
        rows: new Set([...(rows ?? []), ...(later?.rows ?? [])]),
      })
    }
    this.#saving = new Map()
  }

  forget(): void {
    this.#changed = new Map()
    this.#saving = new Map()
    this.#loading.clear()
    this.#evicted.clear()
    this.#absent = new Set()
    for (let key = this.#cached.oldest(); key !== undefined; key = this.#cached.oldest()) this.#drop(key)
  }

  *#steps(): Iterable<WorkStep> {
    const file = this.#fileRef.file!
    for (const [key, { session, rows, anew, isNew }] of this.#saving) {
      if (anew) {
        const count = this.#rowOf(key)?.[1] ?? 0
        for (let n = 1; n * this.#rowTurns < count; n += 1) yield () => file.delete(this.#turnsName, rowKey(key, n))
        if (!session) yield () => file.delete(this.#name, key)
      }
      if (!session) continue
      for (const n of rows ?? []) {
        yield () => {
          const turns = this.#turnsIn(session, n)
          file.set(this.#turnsName, rowKey(key, n), toBytes(packTurns(session, turns), turns.every(isPlainTurn)))
        }
      }
      yield () => {
        const turns = this.#turnsIn(session, 0)
        // The steps above may have found that the file does not contain it yet.
        this.#absent.delete(key)
        const row: SessionRow = [packFields(session), session.turns.length, packTurns(session, turns)]
        file.set(this.#name, key, toBytes(row, hasPlainFields(session) && turns.every(isPlainTurn)), isNew)
      }
    }
  }

  #turnsIn({ turns }: SessionState, row: number): TurnState[] {
    return turns.slice(row * this.#rowTurns, (row + 1) * this.#rowTurns)
  }

  get #turnsName(): string {
    return `${this.#name} turns`
  }

  #inMemory(key: string): SessionState | undefined {
    const change = this.#changed.get(key) ?? this.#saving.get(key)
    return change ? (change.session ?? undefined) : (this.#cached.get(key)?.session ?? this.#evicted.get(key)?.deref())
  }

  #change(key: string, session: SessionState | null): Change {
    let change = this.#changed.get(key)
    if (change) change.session = session
    else this.#changed.set(key, (change = { session, rows: null, anew: false, isNew: false }))
    this.#loading.delete(key)
    this.#drop(key)
    return change
  }

  #read(key: string): SessionState | undefined {
    const row = this.#rowOf(key)
    if (!row) return undefined
    this.#loading.delete(key)
    const session = unpackFields(row[0], key)
    this.#add(session, row[2])
    for (let n = 1; n * this.#rowTurns < row[1]; n += 1) this.#add(session, this.#turnsOf(key, n))
    return session
  }

  #add(session: SessionState, turns: readonly PackedTurn[]): void {
    for (const turn of turns) addTurn(session, unpackTurn(turn, session))
  }

  #rowOf(key: string): SessionRow | undefined {
    const { file } = this.#fileRef
    if (!file || this.#absent.has(key)) return undefined
    const bytes = file.get(this.#name, key)
    if (bytes) return fromBytes(bytes) as SessionRow
    if (this.#absent.size >= MAX_ABSENT) this.#absent = new Set()
    this.#absent.add(key)
    return undefined
  }

  #turnsOf(key: string, n: number): PackedTurn[] {
    const file = this.#fileRef.file!
    const bytes = file.get(this.#turnsName, rowKey(key, n))
    if (!bytes) throw file.damaged(`the entry ${this.#turnsName} ${rowKey(key, n)} is missing`)
    return fromBytes(bytes) as PackedTurn[]
  }

  #cache(key: string, session: SessionState): void {
    this.#drop(key)
    const weight = Math.min(session.turns.length, this.#maxWeight / 2)
    this.#cached.set(key, { session, weight })
    this.#weight += weight
    while (this.#weight > 2 * this.#maxWeight) this.#evict(this.#cached.oldest()!)
  }

  #evict(key: string): void {
    const { session } = this.#cached.get(key)!
    this.#drop(key)
    if (session.turns.length <= this.#rowTurns) return
    this.#evicted.set(key, new WeakRef(session))
    if (this.#evicted.size <= this.#evictedToCollect) return
    for (const [one, left] of this.#evicted) if (!left.deref()) this.#evicted.delete(one)
    this.#evictedToCollect = Math.max(MIN_TO_COLLECT, 2 * this.#evicted.size)
  }

  #drop(key: string): void {
    this.#evicted.delete(key)
    const cached = this.#cached.get(key)
    if (!cached) return
    this.#cached.delete(key)
    this.#weight -= cached.weight
  }
}

/** Key of a further row of a session. */
export const rowKey = (session: string, row: number): string => `${session}\n${row}`

const numbers = function* (count: number): Iterable<number> {
  for (let n = 0; n < count; n += 1) yield n
}

/** Whether JSON represents them: feedback has bytes and arbitrary numbers, an outcome may be any number. */
const isPlainTurn = ({ feedback }: TurnState): boolean => feedback.length === 0
export const hasPlainFields = ({ outcome }: SessionState): boolean =>
  outcome === null || (Number.isFinite(outcome.value) && !Object.is(outcome.value, -0))
