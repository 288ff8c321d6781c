/** Positions of dead letters of one topic, by partition; the latest `most` of each partition are held. */

/** 65,536 offsets take about 3 MB. */
export const MOST_POSITIONS = 65_536

export class Positions {
  readonly #partitions = new Map<number, Set<number>>()
  /** By partition: the highest offset that is no longer held. */
  readonly #dropped = new Map<number, number>()
  readonly #most: number

  constructor(most = MOST_POSITIONS) {
    this.#most = most
  }

  get size(): number {
    return [...this.#partitions.values()].reduce((sum, { size }) => sum + size, 0)
  }

  has(partition: number, offset: number): boolean {
    return this.#partitions.get(partition)?.has(offset) ?? false
  }

  /** Whether the position may have been added and is no longer held. */
  mayBeDropped(partition: number, offset: number): boolean {
    return offset <= (this.#dropped.get(partition) ?? -1)
  }

  /** Returns false if the position is held already. */
  add(partition: number, offset: number): boolean {
    const offsets = this.#partitions.get(partition) ?? new Set()
    this.#partitions.set(partition, offsets)
    const { size } = offsets
    if (offsets.add(offset).size === size) return false
    if (offsets.size > this.#most) {
      const [first] = offsets as unknown as [number]
      offsets.delete(first)
      this.#dropped.set(partition, Math.max(first, this.#dropped.get(partition) ?? -1))
    }
    return true
  }
}
