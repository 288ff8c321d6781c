/**
 * A bounded list that is kept in memory and written whole by each snapshot, in rows of some kilobytes: for state of which a
 * part changes with each record, and that would otherwise be a row written and deleted for each of its entries.
 */
import { inSlices } from './slices.ts'
import type { FileRef, SnapshotPart, WorkStep } from './tables.ts'
import { fromBytes } from './value.ts'

export type ListedState = {
  /** The keys in their order. They are taken at once, so that taking them must be cheap. */
  keys(): readonly string[]
  /**
   * The value of a key, which JSON must represent exactly; undefined: it is not written. Requests may change the state between
   * two steps of a snapshot: values are of different moments.
   */
  value(key: string): unknown
}

/** Characters of a row, beside its last value. */
const ROW_CHARACTERS = 16 * 1024
/** Values of a step, which ends with a row: long values are not written at once. */
const STEP = 16

export class StoredList implements SnapshotPart {
  readonly #fileRef: FileRef
  readonly #name: string
  readonly #state: ListedState
  /** Rows that the file may have. */
  #rows = 0
  #written = 0

  constructor(fileRef: FileRef, name: string, state: ListedState) {
    this.#fileRef = fileRef
    this.#name = name
    this.#state = state
  }

  takeChanges(): Iterable<WorkStep> {
    return this.#fileRef.file ? this.#steps(this.#state.keys()) : []
  }

  commit(): Iterable<WorkStep> {
    this.#rows = this.#written
    return []
  }

  rollback(): void {
    this.#rows = Math.max(this.#rows, this.#written)
  }

  /** Calls `onValue` with each value of the file, in order. */
  async load(onValue: (value: unknown) => void): Promise<void> {
    const { file } = this.#fileRef
    this.#rows = 0
    for (let after = ''; file;) {
      const page = file.entries(this.#name, after)
      for (const [key, row] of page) {
        await inSlices(fromBytes(row) as unknown[], onValue)
        after = key
      }
      if (page.length === 0) return
      this.#rows += page.length
    }
  }

  *#steps(keys: readonly string[]): Iterable<WorkStep> {
    this.#written = 0
    let values: string[] = []
    let length = 0
    const write = (): void => {
      this.#fileRef.file!.set(this.#name, rowKey(this.#written), Buffer.from(`[${values.join(',')}]`))
      this.#written += 1
      values = []
      length = 0
    }
    let at = 0
    while (at < keys.length)
      yield () => {
        for (const end = Math.min(keys.length, at + STEP); at < end;) {
          const value = this.#state.value(keys[at]!)
          at += 1
          if (value === undefined) continue
          const text = JSON.stringify(value)
          values.push(text)
          length += text.length
          if (length >= ROW_CHARACTERS) return write()
        }
      }
    if (length > 0) yield write
    for (let n = this.#written; n < this.#rows; n += 1) yield () => this.#fileRef.file!.delete(this.#name, rowKey(n))
  }
}

/** In the order of the rows. */
const rowKey = (row: number): string => String(row).padStart(8, '0')
