/** The log as plain lists: the records of one key of one topic, in order, up to a position. */
import type { EpisodeRecord, Event, Logged, ScoresEvent, TurnsEvent, UpdatesEvent, WeightsEvent } from '@instar/events'
import { slot, type Ends } from '../sim-log.ts'

export type Fact<E extends Event = Event> = { id: string; at: number; partition: number; event: E }
type Events = { turns: TurnsEvent; scores: ScoresEvent | EpisodeRecord; updates: UpdatesEvent; weights: WeightsEvent }
export type Followed = keyof Events
export const FOLLOWED: readonly Followed[] = ['turns', 'scores', 'updates', 'weights']

export class Facts {
  readonly #all = new Map<string, Fact[]>()
  readonly #partition = new Map<string, number>()

  constructor(records: Iterable<Logged<Event>>) {
    for (const { topic, key, id, partition, offset, event } of records) {
      const name = `${topic} ${key}`
      const list = this.#all.get(name) ?? []
      list.push({ id, at: offset, partition, event })
      this.#all.set(name, list)
      this.#partition.set(name, partition)
    }
  }

  keys(topic: Followed): string[] {
    return [...this.#all.keys()].flatMap((name) => (name.startsWith(`${topic} `) ? [name.slice(topic.length + 1)] : []))
  }

  /** Without `seen` all of it. */
  of<T extends Followed>(topic: T, key: string, seen?: Ends): Fact<Events[T]>[] {
    const name = `${topic} ${key}`
    const all = (this.#all.get(name) ?? []) as Fact<Events[T]>[]
    if (!seen) return all
    const end = seen.get(slot(topic, this.#partition.get(name) ?? 0)) ?? 0
    return all.filter(({ at }) => at < end)
  }
}
