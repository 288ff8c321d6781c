/**
 * Episodes claimed at this gateway. The episode's id is its session's id, and its turns are on the log. This map only
 * holds who claimed it; an end of an episode that is not in the map is accepted.
 */
import { text, wrong, type Fields } from '@instar/dialects'

export type Episode = {
  uuid: string
  client: string
  key: string | null
  /** `eval`: the episode's turns are not trainable. */
  type: 'train' | 'eval'
  task: string
  idleMs: number
  claimedAt: number
  lastAt: number
  calls: number
  outcome: 'running' | 'ended' | 'aborted'
}

/** Ordered by age, oldest first. */
export type Episodes = Map<string, Episode>

/** Number of remembered episodes. The oldest are evicted first. */
const MOST = 10_000

/** Maximum length of the name of a client or a task: the map keeps them. */
const MOST_NAME = 1000

/** The name of a client or a task. Throws `bad_request`. */
export const nameIn = (fields: Fields, name: string): string | null => {
  const value = text(fields, name)
  if (value !== null && value.length > MOST_NAME) throw wrong(name, `a text of at most ${MOST_NAME} characters`)
  return value
}

export const claim = (episodes: Episodes, episode: Episode): void => {
  episodes.set(episode.uuid, episode)
  for (const uuid of episodes.keys()) {
    if (episodes.size <= MOST) break
    episodes.delete(uuid)
  }
}

export const touchEpisode = (episodes: Episodes, uuid: string, now: number): void => {
  const episode = episodes.get(uuid)
  if (!episode) return
  episode.lastAt = now
  episode.calls += 1
}

const isIdle = (episode: Episode, now: number): boolean => now - episode.lastAt > episode.idleMs

/** True for an episode that this client claimed, that has not ended and is not idle. */
export const mayContinue = (episode: Episode | undefined, client: string, now: number): boolean =>
  episode !== undefined && episode.client === client && episode.outcome === 'running' && !isIdle(episode, now)

export const running = (episodes: Episodes, key: string | null, now: number): Episode[] =>
  [...episodes.values()].filter(
    (episode) => episode.key === key && episode.outcome === 'running' && !isIdle(episode, now),
  )

export const ended = (episodes: Episodes, key: string | null): Episode[] =>
  [...episodes.values()].filter((episode) => episode.key === key && episode.outcome === 'ended')
