/**
 * An index of the episodes with pending turns, so that the cost of a decision does not depend on how many run. It follows
 * from the queues of episodes and the folds of `turns` and `scores`: it is built at the first decision, in memory only, and
 * the fold names each session that changes (`touch`), which the next decision looks at again.
 *
 * Groups are as in episodes.ts. Of each API key it has those with an episode that is over in the order of their first end:
 * `complete` ones, which are ready, and `partial` ones, which are ready `taskWaitMs` after that end.
 */
import { taskOf, type EpisodeOutcome, type Queues, type ScoresState, type TurnsState } from '@instar/events'

export type EpisodeState = {
  turns: TurnsState
  scores: ScoresState
  /** Pending turns of episodes, by session. */
  episodes: Queues
}

/** Usable turns of an episode that no batch has taken, scored or not. */
export const pendingOf = ({ episodes }: Pick<EpisodeState, 'episodes'>, session: string): string[] => [
  ...(episodes.get(session) ?? []),
]

/** `isScored`: all of its pending turns are; false while it runs. */
type Episode = {
  session: string
  key: string
  task: string
  begunAt: number
  outcome: EpisodeOutcome | null
  isScored: boolean
}

/** `over`: its episodes that have ended, in the order in which they began. `endedAt`: the first end, ms since the epoch. */
export type TaskGroup = { key: string; over: Episode[]; size: number; endedAt: number; first: Episode }
export type OwnGroups = { complete: TaskGroup[]; partial: TaskGroup[] }

type Task = { episodes: Episode[]; groups: (TaskGroup | null)[] }

/**
 * Sessions that changed since the last decision, and since the last batch, at most: beyond it the next decision looks at all
 * episodes, and the next batch at the versions of all.
 */
export const MAX_TOUCHED = 4096

export class EpisodeIndex {
  /** API keys ('' without keys) with groups of which an episode is over. */
  readonly byKey = new Map<string, OwnGroups>()
  /** What `turnsOf` of episodes.ts gave for `versions`; it is emptied when these change. */
  turns = { versions: '', of: new WeakMap<TaskGroup, string[][]>() }
  readonly #episodes = new Map<string, Episode>()
  readonly #tasks = new Map<string, Task>()
  /** Null: not built. */
  #touched: Set<string> | null = null
  #taskEpisodes = 0
  /** Sessions by versions of their pending turns, as far as `unusable` looked at them. */
  readonly #versions = new Map<number, Set<string>>()
  readonly #versionsOf = new Map<string, Set<number>>()
  /** Sessions that changed since `unusable` looked. Null: it looks at all. */
  #changed: Set<string> | null = null

  /** Episodes with pending turns. */
  get size(): number {
    return this.#episodes.size
  }

  /** The fold changed the session, its queue or a score of it. */
  touch(session: string): void {
    this.#changed?.add(session)
    if (this.#changed && this.#changed.size > MAX_TOUCHED) this.#changed = null
    this.#touched?.add(session)
    if (this.#touched && this.#touched.size > MAX_TOUCHED) this.#forget()
  }

  /** Looks at what changed since the last call. `taskEpisodes`: episodes of a group. */
  refresh(state: EpisodeState, taskEpisodes: number): void {
    if (this.#taskEpisodes !== taskEpisodes) this.#forget()
    this.#taskEpisodes = taskEpisodes
    for (const session of this.#touched ?? state.episodes.keys()) this.#look(state, session)
    this.#touched = new Set()
  }

  /** Sessions with a pending turn of another version than these. */
  unusable(state: EpisodeState, versions: readonly number[]): string[] {
    if (!this.#changed) for (const map of [this.#versions, this.#versionsOf]) map.clear()
    for (const session of this.#changed ?? state.episodes.keys()) this.#lookAtVersions(state, session)
    this.#changed = new Set()
    const others = [...this.#versions].flatMap(([version, sessions]) =>
      versions.includes(version) ? [] : [...sessions],
    )
    return [...new Set(others)]
  }

  #forget(): void {
    for (const map of [this.byKey, this.#episodes, this.#tasks]) map.clear()
    this.#touched = null
  }

  #look(state: EpisodeState, session: string): void {
    const before = this.#episodes.get(session)
    const episode = episodeOf(state, session)
    const isSame = before && episode && nameOf(before) === nameOf(episode) && before.begunAt === episode.begunAt
    if (before && !isSame) this.#remove(before)
    if (episode) this.#episodes.set(session, episode)
    if (isSame) this.#replace(before, episode)
    else if (episode) this.#insert(episode)
  }

  #remove(episode: Episode): void {
    this.#episodes.delete(episode.session)
    const name = nameOf(episode)
    const task = this.#tasks.get(name)!
    const at = placeIn(task.episodes, episode, byBeginning)
    task.episodes.splice(at, 1)
    this.#regroup(task, at)
    if (task.episodes.length === 0) this.#tasks.delete(name)
  }

  #insert(episode: Episode): void {
    const name = nameOf(episode)
    let task = this.#tasks.get(name)
    if (!task) this.#tasks.set(name, (task = { episodes: [], groups: [] }))
    const at = placeIn(task.episodes, episode, byBeginning)
    task.episodes.splice(at, 0, episode)
    this.#regroup(task, at)
  }

  #replace(before: Episode, episode: Episode): void {
    const task = this.#tasks.get(nameOf(episode))!
    const at = placeIn(task.episodes, before, byBeginning)
    task.episodes[at] = episode
    const size = this.#sizeOf(episode)
    this.#group(task, Math.floor(at / size), size)
  }

  /** Groups of the episodes from the one at `at` on, which moved. */
  #regroup(task: Task, at: number): void {
    const size = this.#sizeOf(task.episodes[0])
    for (let n = Math.floor(at / size); n < task.groups.length || n * size < task.episodes.length; n += 1)
      this.#group(task, n, size)
    task.groups.length = Math.ceil(task.episodes.length / size)
  }

  #sizeOf(one: Episode | undefined): number {
    return one?.task === '' ? 1 : this.#taskEpisodes
  }

  #group(task: Task, n: number, size: number): void {
    const before = task.groups[n]
    if (before) this.#list(before, (list, at) => list.splice(at, 1))
    const episodes = task.episodes.slice(n * size, (n + 1) * size)
    const over = episodes.filter(({ outcome }) => outcome !== null)
    const first = episodes[0]
    const endedAt = Math.min(...over.map(({ outcome }) => outcome?.at ?? Infinity))
    const group = first && over.length > 0 ? { key: first.key, over, size, endedAt, first } : null
    task.groups[n] = group
    if (group) this.#list(group, (list, at) => list.splice(at, 0, group))
  }

  /** Calls `change` with the list that the group belongs to and its place there. */
  #list(group: TaskGroup, change: (list: TaskGroup[], at: number) => void): void {
    let own = this.byKey.get(group.key)
    if (!own) this.byKey.set(group.key, (own = { complete: [], partial: [] }))
    const list = isComplete(group) ? own.complete : own.partial
    change(list, placeIn(list, group, byEnd))
    if (own.complete.length + own.partial.length === 0) this.byKey.delete(group.key)
  }

  #lookAtVersions(state: EpisodeState, session: string): void {
    for (const version of this.#versionsOf.get(session) ?? []) {
      const sessions = this.#versions.get(version)
      sessions?.delete(session)
      if (sessions?.size === 0) this.#versions.delete(version)
    }
    const ids = pendingOf(state, session)
    const turns = ids.length === 0 ? undefined : state.turns.sessions.get(session)?.byId
    const own = new Set(ids.flatMap((id) => turns?.get(id)?.version ?? []))
    if (own.size === 0) this.#versionsOf.delete(session)
    else this.#versionsOf.set(session, own)
    for (const version of own) {
      const sessions = this.#versions.get(version)
      if (sessions) sessions.add(session)
      else this.#versions.set(version, new Set([session]))
    }
  }
}

/** Whether all episodes of the group are over and scored. */
const isComplete = ({ over, size }: TaskGroup): boolean =>
  over.length === size && over.every(({ isScored }) => isScored)

const episodeOf = (state: EpisodeState, session: string): Episode | null => {
  if (!state.episodes.get(session)) return null
  const held = state.turns.sessions.get(session)
  const first = held?.turns[0]
  if (!held || !first) return null
  const { outcome } = held
  const isScored = outcome !== null && pendingOf(state, session).every((turn) => state.scores.turns.has(turn))
  return { session, key: first.key ?? '', task: taskOf(held), begunAt: first.at, outcome, isScored }
}

/** Episodes of one task and one API key have one name; an episode without a task has its own. */
const nameOf = ({ session, key, task }: Episode): string => (task === '' ? `one ${session}` : `of ${key} ${task}`)

const byName = (a: Episode, b: Episode): number => (a.session < b.session ? -1 : a.session > b.session ? 1 : 0)
const byBeginning = (a: Episode, b: Episode): number => a.begunAt - b.begunAt || byName(a, b)
/** Also of different keys: in the order of their first end. */
export const byEnd = (a: TaskGroup, b: TaskGroup): number => a.endedAt - b.endedAt || byBeginning(a.first, b.first)

/** The place of `item` in a sorted list: where it is, or where it belongs. */
const placeIn = <T>(list: readonly T[], item: T, compare: (a: T, b: T) => number): number => {
  let [from, to] = [0, list.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (compare(list[middle] as T, item) < 0) from = middle + 1
    else to = middle
  }
  return from
}
