/**
 * Topics that a stored state folds no more: it has no position in them, and a cut of one is no fault of it. They are in the row of the
 * positions, so that no damage of the file takes one for a topic that was never read.
 */
import type { Topic } from '@instar/events/flow'
import type { FoldFile } from './file.ts'

export class LeftTopics {
  readonly #topics = new Set<Topic>()

  /** Those of the file. One whose state cannot be read says none: `mismatch` finds that out. */
  read(file: FoldFile | null): void {
    this.#topics.clear()
    for (const topic of leftIn(file)) this.#topics.add(topic)
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
    const reached = JSON.parse(file?.meta('reached') ?? '[]') as [Topic, unknown][]
    const left = reached.flatMap(([topic, partitions]) => (partitions === null ? [topic] : []))
    // Where builds of 2026-11-29 have them.
    return left.length > 0 ? left : (JSON.parse(file?.meta('left') ?? '[]') as Topic[])
  } catch {
    return []
  }
}
