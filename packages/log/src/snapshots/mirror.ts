/**
 * A bounded state that is all in memory, entry by entry in the file: what changed is written, everything is
 * read at the start, some entries at a time.
 */
import type { FoldFile } from './file.ts'
import { inSlices } from './slices.ts'
import type { FileRef, WorkStep, SnapshotPart } from './tables.ts'
import { fromBytes, toBytes } from './value.ts'

export type Mirrored = {
  /** Keys of entries that have changed since it was last emptied. */
  changed: Set<string>
  /** What the entry is now, which JSON has to give back as it is; undefined: there is none any more. */
  entry(key: string): unknown
}

export class Mirror implements SnapshotPart {
  readonly #place: FileRef
  readonly #name: string
  readonly #of: Mirrored
  #saving: string[] = []

  constructor(place: FileRef, name: string, of: Mirrored) {
    this.#place = place
    this.#name = name
    this.#of = of
  }

  take(): Iterable<WorkStep> {
    const { file } = this.#place
    if (!file) return []
    const { changed } = this.#of
    this.#saving = [...changed]
    changed.clear()
    return this.#steps(file)
  }

  done(): Iterable<WorkStep> {
    this.#saving = []
    return []
  }

  *#steps(file: FoldFile): Iterable<WorkStep> {
    for (const key of this.#saving)
      yield () => {
        const entry = this.#of.entry(key)
        if (entry === undefined) file.drop(this.#name, key)
        else file.put(this.#name, key, toBytes(entry, true))
      }
  }

  undone(): void {
    for (const key of this.#saving) this.#of.changed.add(key)
    this.#saving = []
  }

  async load(take: (key: string, entry: unknown) => void): Promise<void> {
    const { file } = this.#place
    for (let after = ''; file;) {
      const page = file.entries(this.#name, after)
      await inSlices(page, ([key, value]) => take(key, fromBytes(value)))
      const last = page.at(-1)
      if (!last) return
      after = last[0]
    }
  }
}
