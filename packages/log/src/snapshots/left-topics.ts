/** Topics that a stored state folds no more: it has no position in them, and a cut of one is no fault of it. */
import type { Topic } from '@instar/events/flow'
import type { FoldFile } from './file.ts'

export class LeftTopics {
  readonly #topics = new Set<Topic>()

  /** Those of the file. One whose state cannot be read says none: `mismatch` finds that out. */
  read(file: FoldFile | null): void {
    this.#topics.clear()
    for (const topic of leftIn(file)) this.#topics.add(topic)
  }

  /** With the snapshot that is being written. */
  write(file: FoldFile): void {
    if (this.#topics.size > 0) file.setMeta('left', JSON.stringify([...this.#topics]))
  }

  add(topic: Topic): void {
    this.#topics.add(topic)
  }

  list(): readonly Topic[] {
    return [...this.#topics]
  }

  without(topics: readonly Topic[]): Topic[] {
    return topics.filter((topic) => !this.#topics.has(topic))
  }
}

const leftIn = (file: FoldFile | null): Topic[] => {
  try {
    return JSON.parse(file?.meta('left') ?? '[]') as Topic[]
  } catch {
    return []
  }
}
