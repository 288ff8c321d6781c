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
import {
  sessionOfTurn,
  taskOf,
  type BatchItem,
  type EpisodeOutcome,
  type Settings,
  type TurnState,
} from '@instar/events'
import { advantages, rulesOf, type Baselines, type RewardedTurn } from './baseline.ts'
import { episodesOf, pendingOf, type PendingState } from './pending.ts'

export type EpisodeSettings = {
  /** Episodes of a task that are compared with each other. */
  taskEpisodes: number
  /** Milliseconds, from the end of its first episode, that a group waits for the others. */
  taskWaitMs: number
}

/**
 * Episodes that a decision examines, of each owner the oldest: where there are more, every owner has an equal part. The
 * others wait until these are trained, closed or dropped.
 */
export const MAX_EPISODES = 512
/** Largest `taskEpisodes`. */
export const MAX_TASK_EPISODES = 64
/** Largest number of turns of an `EpisodeGroup`. */
export const MAX_GROUP_TURNS = 128

/** What one batch takes: a group or a part of one. `key`: '' without keys. `turns`: pending ones of usable versions. */
export type EpisodeGroup = { key: string; endedAt: number; turns: string[] }
/** `waiting`: episodes that have not ended, or wait for others of their group. `beyond`: those beyond MAX_EPISODES. */
export type EpisodeGroups = { ready: EpisodeGroup[]; waiting: number; beyond: number }

type Episode = { session: string; key: string; task: string; begunAt: number; outcome: EpisodeOutcome | null }

/** The groups of which a batch may take turns now, those that ended first before others. */
export const episodeGroups = (
  state: PendingState,
  versions: readonly number[],
  { taskEpisodes, taskWaitMs }: EpisodeSettings,
  now: number,
): EpisodeGroups => {
  const sessions = episodesOf(state)
  const episodes = examined(sessions).flatMap((session) => episodeOf(state, session) ?? [])
  const byTask = Map.groupBy(episodes, ({ key, task }) => (task === '' ? '' : `${key} ${task}`))
  const ready: EpisodeGroup[] = []
  let waiting = 0
  for (const [name, all] of byTask) {
    const inOrder = all.toSorted((a, b) => a.begunAt - b.begunAt)
    const groups = name === '' ? inOrder.map((one) => [one]) : chunks(inOrder, taskEpisodes)
    for (const group of groups) {
      const over = group.filter((one) => one.outcome !== null)
      const size = name === '' ? 1 : taskEpisodes
      const endedAt = Math.min(...over.map(({ outcome }) => outcome?.at ?? Infinity))
      const complete = over.length === size && over.every(({ session }) => isScored(state, session))
      const taken = complete || now >= endedAt + taskWaitMs ? over : []
      waiting += group.length - taken.length
      const turns = taken.map(({ session }) => turnsOf(state, session, versions))
      ready.push(...fitting(turns).map((some) => ({ key: group[0]?.key ?? '', endedAt, turns: some })))
    }
  }
  return {
    ready: ready.toSorted((a, b) => a.endedAt - b.endedAt),
    waiting,
    beyond: Math.max(0, sessions.length - MAX_EPISODES),
  }
}

/** When the next group is ready although episodes of it are missing, ms since the epoch; null: none waits. */
export const nextReadyAt = (state: PendingState, { taskWaitMs }: EpisodeSettings, now: number): number | null => {
  const times = examined(episodesOf(state))
    .flatMap((session) => state.turns.sessions.get(session)?.outcome?.at ?? [])
    .map((endedAt) => endedAt + taskWaitMs)
    .filter((at) => at > now)
  return times.length === 0 ? null : Math.min(...times)
}

/** The name of a session begins with its API key and an underscore; a session without a key has any other name. */
const ownerOf = (session: string): string => session.slice(0, Math.max(0, session.indexOf('_')))

/** At most MAX_EPISODES sessions, so that the episodes of one owner do not use up what is examined of others. */
const examined = (sessions: readonly string[]): readonly string[] => {
  if (sessions.length <= MAX_EPISODES) return sessions
  const owners = [...Map.groupBy(sessions, ownerOf).values()].toSorted((a, b) => a.length - b.length)
  let left = MAX_EPISODES
  return owners.flatMap((own, at) => {
    const part = own.slice(0, Math.ceil(left / (owners.length - at)))
    left -= part.length
    return part
  })
}

const episodeOf = (state: PendingState, session: string): Episode | null => {
  const held = state.turns.sessions.get(session)
  const first = held?.turns[0]
  if (!held || !first) return null
  return { session, key: first.key ?? '', task: taskOf(held), begunAt: first.at, outcome: held.outcome }
}

const isScored = (state: PendingState, session: string): boolean =>
  pendingOf(state, session).every((turn) => state.scores.turns.has(turn))

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

const chunks = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size))

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
