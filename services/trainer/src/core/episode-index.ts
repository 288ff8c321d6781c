/**
 * An index of the episodes with pending turns, so that the cost of a decision does not depend on how many run. It follows
 * from the queues of episodes and the folds of `turns` and `scores`: it is built at the first decision, in memory only, and
 * the fold names each session that changes (`touch`), which the next decision looks at again.
 */
import { taskOf, type Queues, type ScoresState, type Table, type TurnsState } from '@instar/events'
import { placeIn, withChanges } from './sorted-list.ts'
import { byBeginning, groupOf, GroupLists, type Episode, type TaskGroup } from './task-groups.ts'

/**
 * What `scores` say of an episode that runs, or of which turns are awaited. `key`, `begunAt`: of its first turn. `awaited`: turns
 * that its outcome covers and that have neither score nor skip yet.
 */
export type Told = { task: string; key: string | null; begunAt: number; awaited: readonly string[] }

export type EpisodeState = {
  turns: TurnsState
  scores: ScoresState
  /** By session; empty while the trainer reads `turns`. */
  told: Table<string, Told> & Iterable<readonly [string, Told]>
  /** Pending turns of episodes, by session. */
  episodes: Queues
}

/** Usable turns of an episode that no batch has taken, scored or not. */
export const pendingOf = ({ episodes }: Pick<EpisodeState, 'episodes'>, session: string): string[] => [
  ...(episodes.get(session) ?? []),
]

/** `groups`: of `episodes`, in their order; null: none of the group is over. */
type Task = { episodes: Episode[]; groups: (TaskGroup | null)[] }
/** Episodes of a task that a decision finds changed. `same`: their place is. */
type TaskChange = { gone: Episode[]; come: Episode[]; same: Episode[] }

/**
 * Sessions that changed since the last decision, and since the last batch, at most: beyond it the next decision looks at all
 * episodes, and the next batch at the versions of all.
 */
export const MAX_TOUCHED = 4096

export class EpisodeIndex {
  /** Groups of which an episode is over. */
  readonly groups = new GroupLists()
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

  /** Looks at what changed since the last call. `taskEpisodes`: episodes of a group. `versions`: the usable ones. */
  refresh(state: EpisodeState, taskEpisodes: number, versions: readonly number[]): void {
    if (this.#taskEpisodes !== taskEpisodes) this.#forget()
    this.#taskEpisodes = taskEpisodes
    const changes = new Map<string, TaskChange>()
    for (const session of this.#touched ?? episodesIn(state)) this.#look(state, session, changes)
    this.#touched = new Set()
    const [removed, added]: TaskGroup[][] = [[], []]
    for (const [name, change] of changes) this.#regroup(name, change, removed!, added!)
    this.groups.change(removed!, added!, versions)
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
    for (const map of [this.groups, this.#episodes, this.#tasks]) map.clear()
    this.#touched = null
  }

  #look(state: EpisodeState, session: string, changes: Map<string, TaskChange>): void {
    const before = this.#episodes.get(session)
    const episode = episodeOf(state, session)
    const changeOf = (one: Episode): TaskChange => {
      const change = changes.get(nameOf(one)) ?? { gone: [], come: [], same: [] }
      changes.set(nameOf(one), change)
      return change
    }
    const isSame = before && episode && nameOf(before) === nameOf(episode) && before.begunAt === episode.begunAt
    if (episode) this.#episodes.set(session, episode)
    else this.#episodes.delete(session)
    if (isSame) changeOf(episode).same.push(episode)
    else {
      if (before) changeOf(before).gone.push(before)
      if (episode) changeOf(episode).come.push(episode)
    }
  }

  /**
   * Groups the episodes of a task again: those groups with a changed episode, and all after the first place at which one
   * comes or goes, once for all changes. A group that has the same episodes as before stays.
   */
  #regroup(name: string, { gone, come, same }: TaskChange, removed: TaskGroup[], added: TaskGroup[]): void {
    const task = this.#tasks.get(name) ?? { episodes: [], groups: [] }
    const size = (gone[0] ?? come[0] ?? same[0])?.task === '' ? 1 : this.#taskEpisodes
    const numbers = new Set<number>()
    for (const episode of same) {
      const at = placeIn(task.episodes, episode, byBeginning)
      task.episodes[at] = episode
      numbers.add(Math.floor(at / size))
    }
    const moved = [...gone, ...come]
    if (moved.length > 0) {
      const from = moved.reduce((least, one) => Math.min(least, placeIn(task.episodes, one, byBeginning)), Infinity)
      task.episodes = withChanges(task.episodes, gone, come, byBeginning)
      const count = Math.max(task.groups.length, Math.ceil(task.episodes.length / size))
      for (let n = Math.floor(from / size); n < count; n += 1) numbers.add(n)
    }
    const before = new Map<Episode, TaskGroup>()
    for (const n of numbers) {
      const group = task.groups[n]
      if (group) before.set(group.first, group)
    }
    for (const n of numbers) {
      const episodes = task.episodes.slice(n * size, (n + 1) * size)
      const known = before.get(episodes[0]!)
      const stays = known?.episodes.length === episodes.length && known.episodes.every((one, i) => one === episodes[i])
      const group = stays ? known : groupOf(episodes, size)
      if (stays) before.delete(known.first)
      else if (group) added.push(group)
      task.groups[n] = group
    }
    for (const group of before.values()) removed.push(group)
    task.groups.length = Math.ceil(task.episodes.length / size)
    if (task.episodes.length === 0) this.#tasks.delete(name)
    else this.#tasks.set(name, task)
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

const episodesIn = ({ episodes, told }: EpisodeState): Set<string> =>
  new Set([...episodes.keys(), ...Array.from(told, ([session]) => session)])

const episodeOf = (state: EpisodeState, session: string): Episode | null => {
  const told = state.told.get(session)
  if (!told && !state.episodes.get(session)) return null
  const held = state.turns.sessions.get(session)
  const first = held?.turns[0]
  const begun = told ?? (first && { key: first.key, begunAt: first.at })
  if (!begun) return null
  const outcome = held?.outcome ?? null
  const pending = outcome === null ? [] : pendingOf(state, session).flatMap((id) => held?.byId.get(id) ?? [])
  const scored = pending.filter(({ turn }) => state.scores.turns.has(turn))
  const isScored = outcome !== null && scored.length === pending.length && (told?.awaited.length ?? 0) === 0
  const versions = new Set(scored.map(({ version }) => version))
  const task = (outcome === null ? told?.task : null) || (held ? taskOf(held) : '')
  return { session, key: begun.key ?? '', task, begunAt: begun.begunAt, outcome, isScored, versions }
}

/** Episodes of one task and one API key have one name; an episode without a task has its own. */
const nameOf = ({ session, key, task }: Episode): string => (task === '' ? `one ${session}` : `of ${key} ${task}`)
