/**
 * Episodes: sessions whose turns name a task or that end with an outcome. The turns of an episode wait for its outcome.
 * Episodes of one task and one API key are a group: the first `taskEpisodes` that began, whichever end first, because a
 * group of the first that ended would compare short episodes with short ones, a baseline that depends on the number of
 * turns. The group trains when all of them are over and scored, or `taskWaitMs` after the first of them ended, with
 * those that are over. An episode without a task is a group of its own.
 *
 * A group of at most MAX_GROUP_TURNS turns is taken by one batch. A larger one is divided into parts of at most so many
 * turns, which may be in different batches: an episode is divided only if it alone exceeds the limit (`fitting`). While a
 * key has a share of the batch (choice.ts), the limit is that share. Turns that are scored after their group was taken are
 * a later group.
 */
import { sessionOfTurn, taskOf, type BatchItem, type Settings, type TurnState } from '@instar/events'
import { advantages, rulesOf, type Baselines, type RewardedTurn } from './baseline.ts'
import { pendingOf } from './episode-index.ts'
import type { PendingState } from './pending.ts'
import { byEnd, type OwnGroups, type TaskGroup } from './task-groups.ts'

export type EpisodeSettings = {
  /** Episodes of a task that are compared with each other. */
  taskEpisodes: number
  /** Milliseconds, from the end of its first episode, that a group waits for the others. */
  taskWaitMs: number
}

/**
 * Groups of which a decision may take turns, at most, those of each API key that ended first: where there are more, every
 * key has an equal part. The others follow when these are trained. Groups without a usable turn do not count.
 */
export const MAX_EPISODES = 512
/** Largest `taskEpisodes`. */
export const MAX_TASK_EPISODES = 64
/** Largest number of turns of an `EpisodeGroup`. */
export const MAX_GROUP_TURNS = 128

/** What one batch takes: a group or a part of one. `key`: '' without keys. `turns`: pending ones of usable versions. */
export type EpisodeGroup = { key: string; endedAt: number; turns: string[] }
/** `examined`: episodes of the groups that the decision looks at. */
export type EpisodeGroups = { ready: EpisodeGroup[]; examined: number }

/** The groups of which a batch may take turns now, those that ended first before others. */
export const episodeGroups = (
  state: PendingState,
  versions: readonly number[],
  { taskEpisodes, taskWaitMs }: EpisodeSettings,
  now: number,
): EpisodeGroups => {
  const { index } = state
  index.refresh(state, taskEpisodes, versions)
  if (index.turns.versions !== String(versions)) index.turns = { versions: String(versions), of: new WeakMap() }
  const owners = [...index.groups.byKey.values()].map((own) => readyOf(own, taskWaitMs, now))
  const examined = owners.flatMap(equalParts(owners)).toSorted(byEnd)
  const ready = examined.flatMap((group) =>
    turnsIn(state, group, versions).map((turns) => ({ key: group.key, endedAt: group.endedAt, turns })),
  )
  return { ready, examined: examined.reduce((sum, { over }) => sum + over.length, 0) }
}

/**
 * Episodes that run or wait for others of their task, and those that are over and that no decision examines yet. Those of
 * groups without a usable turn are in neither: a later batch drops their turns.
 */
export const countEpisodes = (
  state: PendingState,
  versions: readonly number[],
  settings: EpisodeSettings,
  now: number,
): { waiting: number; beyond: number } => {
  const { examined } = episodeGroups(state, versions, settings, now)
  let over = 0
  for (const own of state.index.groups.byKey.values()) {
    const { complete, partial, isReady } = readyOf(own, settings.taskWaitMs, now)
    for (const group of [...complete, ...partial.slice(0, isReady)]) over += group.over.length
  }
  return { waiting: state.index.size - over - state.index.groups.withoutUse, beyond: over - examined }
}

/** When the next group is ready although episodes of it are missing, ms since the epoch; null: none waits. */
export const nextReadyAt = (
  state: PendingState,
  versions: readonly number[],
  { taskEpisodes, taskWaitMs }: EpisodeSettings,
  now: number,
): number | null => {
  state.index.refresh(state, taskEpisodes, versions)
  let next = Infinity
  for (const own of state.index.groups.byKey.values()) {
    const { partial, isReady } = readyOf(own, taskWaitMs, now)
    next = Math.min(next, (partial[isReady]?.endedAt ?? Infinity) + taskWaitMs)
  }
  return next === Infinity ? null : next
}

/** `isReady`: how many of the partial groups have waited long enough. */
type ReadyGroups = OwnGroups & { isReady: number; count: number }

const readyOf = ({ complete, partial }: OwnGroups, taskWaitMs: number, now: number): ReadyGroups => {
  let [from, to] = [0, partial.length]
  while (from < to) {
    const middle = (from + to) >> 1
    const endedAt = partial[middle]?.endedAt ?? Infinity
    if (now >= endedAt + taskWaitMs) from = middle + 1
    else to = middle
  }
  return { complete, partial, isReady: from, count: complete.length + from }
}

/** Of each owner the groups that ended first: at most MAX_EPISODES, so that those of one do not use up the others'. */
const equalParts = (owners: readonly ReadyGroups[]): ((own: ReadyGroups) => TaskGroup[]) => {
  const parts = new Map<ReadyGroups, number>()
  let left = MAX_EPISODES
  for (const [at, own] of owners.toSorted((a, b) => a.count - b.count).entries()) {
    const part = Math.min(own.count, Math.ceil(left / (owners.length - at)))
    parts.set(own, part)
    left -= part
  }
  return (own) => {
    const part = parts.get(own) ?? 0
    const { complete, partial, isReady } = own
    const some = [...complete.slice(0, part), ...partial.slice(0, Math.min(part, isReady))]
    return some.length <= part ? some : some.toSorted(byEnd).slice(0, part)
  }
}

/** The turns of a group that a batch may take, in parts of at most MAX_GROUP_TURNS. */
const turnsIn = (state: PendingState, group: TaskGroup, versions: readonly number[]): string[][] => {
  const { of } = state.index.turns
  const known = of.get(group)
  if (known) return known
  const turns = fitting(group.over.map(({ session }) => turnsOf(state, session, versions)))
  of.set(group, turns)
  return turns
}

const turnsOf = (state: PendingState, session: string, versions: readonly number[]): string[] =>
  pendingOf(state, session).filter((id) => {
    const turn = state.turns.turns.get(id)
    return turn !== undefined && state.scores.turns.has(id) && versions.includes(turn.version)
  })

/** The advantages of items whose rewards combine own scores and outcomes. `task`: of the episode, null without one. */
export const advantagesOf = (
  items: readonly (Omit<RewardedTurn, 'episode'> &
    Pick<BatchItem, 'session' | 'turnScore' | 'outcome'> & { task: string | null })[],
  before: Baselines,
  settings: Settings,
): ReturnType<typeof advantages> =>
  advantages(
    items.map(({ session, task, outcome = null, turnScore = null, ...item }) => ({
      ...item,
      episode: outcome === null ? null : { session, task: task ?? '', outcome, turnScore },
    })),
    before,
    rulesOf(settings),
    settings.turnScoreWeight ?? 0,
  )

/** What a batch records of the outcome of a turn; null: no outcome covers the turn. */
export const outcomeOf = (
  state: Pick<PendingState, 'turns'>,
  turn: Pick<TurnState, 'session' | 'outcomeBy'>,
): { value: number; closing: string; task: string } | null => {
  const session = state.turns.sessions.get(turn.session)
  if (turn.outcomeBy === null || !session?.outcome || session.outcome.record !== turn.outcomeBy) return null
  return { value: session.outcome.value, closing: session.outcome.record, task: taskOf(session) }
}

/** A group in parts of at most `limit` turns. */
export const partsOf = (group: EpisodeGroup, limit: number): EpisodeGroup[] =>
  group.turns.length <= limit
    ? [group]
    : fitting([...Map.groupBy(group.turns, sessionOfTurn).values()], limit).map((turns) => ({ ...group, turns }))

/**
 * The turns of a group in parts of at most `limit`. An episode that does not fit into the open part begins a new
 * one. An episode above the limit fills parts; later episodes may join the last of these.
 */
const fitting = (episodes: readonly string[][], limit = MAX_GROUP_TURNS): string[][] => {
  const groups: string[][] = []
  let open: string[] = []
  for (const turns of episodes) {
    if (open.length > 0 && open.length + turns.length > limit) {
      groups.push(open)
      open = []
    }
    open.push(...turns)
    while (open.length > limit) groups.push(open.splice(0, limit))
  }
  if (open.length > 0) groups.push(open)
  return groups
}
