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

/** `byKey`: of each key, ordered by age, oldest first. */
export type Episodes = { byId: Map<string, Episode>; byKey: Map<string | null, Map<string, Episode>> }

export const initialEpisodes = (): Episodes => ({ byId: new Map(), byKey: new Map() })

/** Remembered episodes of one key. Its oldest are evicted first, so that no key evicts the episodes of another. */
const MOST = 10_000

/** Maximum length of the name of a client or a task: the map keeps them. */
const MOST_NAME = 1000

/** The name of a client or a task. Throws `bad_request`. */
export const nameIn = (fields: Fields, name: string): string | null => {
  const value = text(fields, name)
  if (value !== null && value.length > MOST_NAME) throw wrong(name, `a text of at most ${MOST_NAME} characters`)
  return value
}

export const claim = ({ byId, byKey }: Episodes, episode: Episode, most = MOST): void => {
  const own = byKey.get(episode.key) ?? new Map<string, Episode>()
  byKey.set(episode.key, own.set(episode.uuid, episode))
  byId.set(episode.uuid, episode)
  if (own.size <= most) return
  const oldest = own.keys().next().value!
  own.delete(oldest)
  byId.delete(oldest)
}

/** The episode that this key claimed, which lives on by its use; undefined if it claimed none with this id. */
export const touchEpisode = (
  episodes: Episodes,
  { uuid, key }: Pick<Episode, 'uuid' | 'key'>,
  now: number,
): Episode | undefined => {
  const episode = episodes.byId.get(uuid)
  if (!episode || episode.key !== key) return undefined
  episode.lastAt = now
  episode.calls += 1
  return episode
}

const isIdle = (episode: Episode, now: number): boolean => now - episode.lastAt > episode.idleMs

/** True for an episode that this client claimed, that has not ended and is not idle. */
export const mayContinue = (episode: Episode | undefined, client: string, now: number): boolean =>
  episode !== undefined && episode.client === client && episode.outcome === 'running' && !isIdle(episode, now)

const episodesOf = ({ byKey }: Episodes, key: string | null): Episode[] => [...(byKey.get(key)?.values() ?? [])]

export const running = (episodes: Episodes, key: string | null, now: number): Episode[] =>
  episodesOf(episodes, key).filter((episode) => episode.outcome === 'running' && !isIdle(episode, now))

export const ended = (episodes: Episodes, key: string | null): Episode[] =>
  episodesOf(episodes, key).filter((episode) => episode.outcome === 'ended')
