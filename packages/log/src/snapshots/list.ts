/**
 * A bounded list that is kept in memory, of which a snapshot writes what changed: it appends entries, of which a later one
 * of a key replaces those before. Once the file has twice as many entries as the list has keys, or twice the characters that it
 * had whole, a snapshot writes the list whole instead. For state of which a part changes with each record, and that would otherwise be a row written and deleted
 * for each of its entries.
 */
import { inSlices } from './slices.ts'
import type { FileRef, SnapshotPart, WorkStep } from './tables.ts'
import { fromBytes } from './value.ts'

/** `moved`: the key is the last one now, and its value may be another; `changed`: it has its place, or is gone. */
export type ListChange = 'moved' | 'changed'

export type ListedState = {
  /** The keys in their order. They are taken at once, so that taking them must be cheap. */
  keys(): readonly string[]
  /**
   * The entry of a key, which JSON must represent exactly, also of one that is gone. Requests may change the state between two
   * steps of a snapshot: entries are of different moments.
   */
  entry(key: string, change: ListChange): unknown
}

/** Characters of a row, beside its last entry. */
const ROW_CHARACTERS = 16 * 1024
/** Entries of a step, which ends with a row: long entries are not written at once. */
const STEP = 16
/** Entries that the file may have beside twice the keys. */
const SLACK = 1024
/** Characters that the file may have beside twice those of the list: a few long entries that change often count as few. */
const SLACK_CHARACTERS = 2 * 1024 * 1024
const EMPTY = { rows: 0, entries: 0, characters: 0 }

export class StoredList implements SnapshotPart {
  readonly #fileRef: FileRef
  readonly #name: string
  readonly #state: ListedState
  /** In the order in which keys moved. */
  #changes = new Map<string, ListChange>()
  #saving: ReadonlyMap<string, ListChange> = new Map()
  /** Rows, entries and characters of the file, and those that it has with the snapshot that is being written. */
  #stored = { ...EMPTY }
  #written = { ...EMPTY }
  /** Characters of the list as it was last written whole; 0 before that. */
  #whole = 0
  #isWhole = false

  constructor(fileRef: FileRef, name: string, state: ListedState) {
    this.#fileRef = fileRef
    this.#name = name
    this.#state = state
  }

  /** To be called after each change of a key's place, value or presence. */
  note(key: string, change: ListChange): void {
    if (!this.#fileRef.file) return
    if (change === 'moved') this.#changes.delete(key)
    else if (this.#changes.has(key)) return
    this.#changes.set(key, change)
  }

  takeChanges(): Iterable<WorkStep> {
    if (!this.#fileRef.file) return []
    this.#saving = this.#changes
    this.#changes = new Map()
    const keys = this.#state.keys()
    const { entries, characters } = this.#stored
    this.#isWhole =
      entries === 0 ||
      entries + this.#saving.size > 2 * keys.length + SLACK ||
      characters > 2 * this.#whole + SLACK_CHARACTERS
    this.#written = { ...(this.#isWhole ? EMPTY : this.#stored) }
    return this.#steps(this.#isWhole ? keys.map((key): [string, ListChange] => [key, 'moved']) : [...this.#saving])
  }

  commit(): Iterable<WorkStep> {
    this.#stored = this.#written
    if (this.#isWhole) this.#whole = this.#written.characters
    this.#isWhole = false
    this.#saving = new Map()
    return []
  }

  rollback(): void {
    const later = this.#changes
    this.#changes = new Map(this.#saving)
    this.#saving = new Map()
    for (const [key, change] of later) this.note(key, change)
  }

  forget(): void {
    this.#changes = new Map()
    this.#saving = new Map()
    this.#stored = { ...EMPTY }
  }

  /** Calls `onEntry` with each entry of the file, in the order in which they were written. */
  async load(onEntry: (entry: unknown) => void): Promise<void> {
    const { file } = this.#fileRef
    this.#stored = { ...EMPTY }
    for (let after = ''; file;) {
      const page = file.entries(this.#name, after)
      for (const [key, row] of page) {
        this.#stored.characters += row.length
        await inSlices(fromBytes(row) as unknown[], (entry) => {
          this.#stored.entries += 1
          onEntry(entry)
        })
        after = key
      }
      if (page.length === 0) return
      this.#stored.rows = Number(after) + 1
    }
  }

  *#steps(changes: readonly (readonly [string, ListChange])[]): Iterable<WorkStep> {
    const before = this.#stored.rows
    let entries: string[] = []
    let length = 0
    const write = (): void => {
      this.#fileRef.file!.set(this.#name, rowKey(this.#written.rows), Buffer.from(`[${entries.join(',')}]`))
      this.#written.rows += 1
      this.#written.characters += length
      entries = []
      length = 0
    }
    let at = 0
    while (at < changes.length)
      yield () => {
        for (const end = Math.min(changes.length, at + STEP); at < end;) {
          const [key, change] = changes[at]!
          const text = JSON.stringify(this.#state.entry(key, change))
          at += 1
          this.#written.entries += 1
          entries.push(text)
          length += text.length
          if (length >= ROW_CHARACTERS) return write()
        }
      }
    if (length > 0) yield write
    for (let n = this.#written.rows; n < before; n += 1) yield () => this.#fileRef.file!.delete(this.#name, rowKey(n))
  }
}

/** In the order of the rows. */
const rowKey = (row: number): string => String(row).padStart(8, '0')
