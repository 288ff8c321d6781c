/**
 * Which partitions the next fetch names. A fetch that brings one record costs nearly as much CPU as one that brings many: after
 * a fetch that brought the last records of topics that may be late, these are left out for a while.
 */
import type { Topic } from '@instar/events/flow'
import type { SubscribeOptions } from '../port.ts'
import type { FetchPosition, TopicPartition } from './fetch.ts'

type Part = { readonly of: Topic }
/** `waitMs`: how long the fetch may wait for a record. */
export type Due<P> = { partitions: readonly P[]; waitMs: number }
/** What a fetch brought of a partition: the offset behind it, and the end of the partition. */
type Found<P> = { progress: P; batch: { next: number; end: number } }
/**
 * The longest that a fetch may wait, in ms: one of all partitions, which any record ends, and one of some, behind which a record of
 * another one waits.
 */
export type MostMs = { all: number; some: number }

export class Gathering<P extends Part> {
  readonly #ms: number
  readonly #all: readonly P[]
  readonly #urgent: readonly P[]
  readonly #mostMs: MostMs
  #until = 0

  constructor(gather: SubscribeOptions['gather'], partitions: readonly P[], mostMs: MostMs) {
    this.#ms = gather?.ms ?? 0
    this.#all = partitions
    this.#urgent = partitions.filter(({ of }) => !gather?.topics.includes(of))
    this.#mostMs = mostMs
  }

  /** `now`: ms of a monotonic clock. `hurry`: somebody waits for records that no fetch has brought. */
  due(now: number, hurry: boolean): Due<P> {
    return hurry || now >= this.#until
      ? { partitions: this.#all, waitMs: this.#mostMs.all }
      : { partitions: this.#urgent, waitMs: Math.min(this.#mostMs.some, Math.ceil(this.#until - now)) }
  }

  /** `from`: the offset from which each partition was fetched. */
  fetched(found: readonly Found<P>[], from: ReadonlyMap<P, number>, now: number): void {
    const late = found.filter(({ progress }) => !this.#urgent.includes(progress))
    const moved = late.some(({ progress, batch }) => batch.next > from.get(progress)!)
    if (moved && late.every(({ batch }) => batch.next >= batch.end)) this.#until = now + this.#ms
  }
}

export const positionsOf = <P extends TopicPartition>(
  partitions: readonly P[],
  offsets: ReadonlyMap<P, number>,
): FetchPosition[] =>
  partitions.map((one) => ({ topic: one.topic, partition: one.partition, offset: offsets.get(one)! }))
