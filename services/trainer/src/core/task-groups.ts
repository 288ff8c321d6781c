/**
 * Groups of episodes (episodes.ts) of which an episode is over, by API key, in the order of their first end. The lists have
 * only those with a turn that a batch may take: groups whose turns are all stale stay until these are dropped, and a
 * decision does not go through them. A change of the usable versions costs the groups of the versions that come or go.
 */
import type { EpisodeOutcome } from '@instar/events'
import { withChanges } from './sorted-list.ts'

/**
 * `isScored`: all of its pending turns are; false while it runs. `versions`: of its scored pending turns; none while it
 * runs.
 */
export type Episode = {
  session: string
  key: string
  task: string
  begunAt: number
  outcome: EpisodeOutcome | null
  isScored: boolean
  versions: ReadonlySet<number>
}

/**
 * `episodes`: all of the group, in the order in which they began. `over`: those that have ended. `endedAt`: the first end,
 * ms since the epoch. `versions`: of its episodes.
 */
export type TaskGroup = {
  key: string
  first: Episode
  episodes: readonly Episode[]
  over: readonly Episode[]
  size: number
  endedAt: number
  versions: ReadonlySet<number>
}
/** `complete`: groups that are ready; `partial`: those that are ready `taskWaitMs` after their first end. */
export type OwnGroups = { complete: TaskGroup[]; partial: TaskGroup[] }

/** The group of these episodes; null: none of them is over. `size`: episodes of a complete group. */
export const groupOf = (episodes: readonly Episode[], size: number): TaskGroup | null => {
  const [first] = episodes
  const over = episodes.filter(({ outcome }) => outcome !== null)
  if (!first || over.length === 0) return null
  const endedAt = Math.min(...over.map(({ outcome }) => outcome?.at ?? Infinity))
  const versions = new Set(over.flatMap((one) => [...one.versions]))
  return { key: first.key, first, episodes, over, size, endedAt, versions }
}

export class GroupLists {
  /** API keys ('' without keys) with a group that has a usable turn. */
  readonly byKey = new Map<string, OwnGroups>()
  /** Episodes that are over and scored in groups without a usable turn. */
  withoutUse = 0
  readonly #listed = new Set<TaskGroup>()
  readonly #ofVersion = new Map<number, Set<TaskGroup>>()
  #versions: ReadonlySet<number> = new Set()

  clear(): void {
    for (const map of [this.byKey, this.#listed, this.#ofVersion]) map.clear()
    this.withoutUse = 0
  }

  /** `removed`: groups that were added before. `versions`: the usable ones from now on. */
  change(removed: readonly TaskGroup[], added: readonly TaskGroup[], versions: readonly number[]): void {
    const leave = new Set(removed.filter((group) => this.#listed.has(group)))
    const join = new Set<TaskGroup>()
    for (const group of removed) {
      if (!leave.has(group)) this.withoutUse -= countScored(group)
      for (const version of group.versions) this.#ofVersion.get(version)?.delete(group)
    }
    for (const version of removed.flatMap((group) => [...group.versions]))
      if (this.#ofVersion.get(version)?.size === 0) this.#ofVersion.delete(version)
    for (const group of this.#setVersions(versions)) {
      const isUsable = this.#isUsable(group)
      if (isUsable === this.#listed.has(group)) continue
      this.withoutUse += isUsable ? -countScored(group) : countScored(group)
      ;(isUsable ? join : leave).add(group)
    }
    for (const group of added) {
      for (const version of group.versions) {
        const groups = this.#ofVersion.get(version)
        if (groups) groups.add(group)
        else this.#ofVersion.set(version, new Set([group]))
      }
      if (this.#isUsable(group)) join.add(group)
      else this.withoutUse += countScored(group)
    }
    this.#list(leave, join)
  }

  /** Groups of the versions that come or go. */
  #setVersions(versions: readonly number[]): Set<TaskGroup> {
    const [before, after] = [this.#versions, new Set(versions)]
    this.#versions = after
    return new Set([...before.symmetricDifference(after)].flatMap((one) => [...(this.#ofVersion.get(one) ?? [])]))
  }

  #isUsable({ versions }: TaskGroup): boolean {
    return !versions.isDisjointFrom(this.#versions)
  }

  #list(leave: ReadonlySet<TaskGroup>, join: ReadonlySet<TaskGroup>): void {
    for (const group of leave) this.#listed.delete(group)
    for (const group of join) this.#listed.add(group)
    const [gone, come] = [leave, join].map((groups) => Map.groupBy(groups, ({ key }) => key))
    for (const key of new Set([...gone!.keys(), ...come!.keys()])) {
      const own = this.byKey.get(key) ?? { complete: [], partial: [] }
      const [less, more] = [gone, come].map((groups) => Map.groupBy(groups!.get(key) ?? [], isComplete))
      const changed = (list: TaskGroup[], of: boolean): TaskGroup[] =>
        withChanges(list, less!.get(of) ?? [], more!.get(of) ?? [], byEnd)
      const next = { complete: changed(own.complete, true), partial: changed(own.partial, false) }
      if (next.complete.length + next.partial.length === 0) this.byKey.delete(key)
      else this.byKey.set(key, next)
    }
  }
}

const countScored = ({ over }: TaskGroup): number => over.filter(({ isScored }) => isScored).length

/** Whether all episodes of the group are over and scored. */
const isComplete = ({ over, size }: TaskGroup): boolean =>
  over.length === size && over.every(({ isScored }) => isScored)

const byName = (a: Episode, b: Episode): number => (a.session < b.session ? -1 : a.session > b.session ? 1 : 0)
export const byBeginning = (a: Episode, b: Episode): number => a.begunAt - b.begunAt || byName(a, b)
/** Also of different keys: in the order of their first end. */
export const byEnd = (a: TaskGroup, b: TaskGroup): number => a.endedAt - b.endedAt || byBeginning(a.first, b.first)
