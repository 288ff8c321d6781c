/**
 * A bounded state that is kept in memory and copied to the file: changed entries are written, all are read at the
 * start.
 */
import type { FoldFile } from './file.ts'
import { inSlices } from './slices.ts'
import type { FileRef, WorkStep, SnapshotPart } from './tables.ts'
import { fromBytes, toBytes } from './value.ts'

export type MirroredState = {
  /** Keys of the entries that changed since the last `takeChanges`, which clears the set. */
  changed: Set<string>
  /**
   * The current value of an entry, undefined if the entry is deleted. Requests change the state while a snapshot is written,
   * so that all entries of a snapshot are taken at once, of all mirrors at the same moment: the value must not change
   * later, and taking it must be cheap.
   */
  entry(key: string): unknown
  /** The form in which a value is written, which JSON must represent exactly; absent: the value itself. */
  pack?(key: string, value: unknown): unknown
}

export class Mirror implements SnapshotPart {
  readonly #fileRef: FileRef
  readonly #name: string
  readonly #state: MirroredState
  #saving = new Map<string, unknown>()

  constructor(fileRef: FileRef, name: string, state: MirroredState) {
    this.#fileRef = fileRef
    this.#name = name
    this.#state = state
  }

  takeChanges(): Iterable<WorkStep> {
    const { file } = this.#fileRef
    if (!file) return []
    const { changed } = this.#state
    this.#saving = new Map([...changed].map((key) => [key, this.#state.entry(key)]))
    changed.clear()
    return this.#steps(file)
  }

  commit(): Iterable<WorkStep> {
    this.#saving = new Map()
    return []
  }

  *#steps(file: FoldFile): Iterable<WorkStep> {
    for (const [key, entry] of this.#saving)
      yield () => {
        if (entry === undefined) file.delete(this.#name, key)
        else file.set(this.#name, key, toBytes(this.#state.pack?.(key, entry) ?? entry, true))
      }
  }

  rollback(): void {
    for (const key of this.#saving.keys()) this.#state.changed.add(key)
    this.#saving = new Map()
  }

  /** Calls `onEntry` with every entry of the file. */
  async load(onEntry: (key: string, entry: unknown) => void): Promise<void> {
    const { file } = this.#fileRef
    for (let after = ''; file;) {
      const page = file.entries(this.#name, after)
      await inSlices(page, ([key, value]) => onEntry(key, fromBytes(value)))
      const last = page.at(-1)
      if (!last) return
      after = last[0]
    }
  }
}
