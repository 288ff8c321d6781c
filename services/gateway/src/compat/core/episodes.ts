/**
 * Episodes that were claimed at this gateway. An episode is a session whose id it is; what was said in it is on the
 * log, this is only who claimed it, and is lost without harm: an end that comes later is taken all the same.
 */
export type Episode = {
  uuid: string
  client: string
  key: string | null
  /** `eval`: nothing is learned from it. */
  type: 'train' | 'eval'
  task: string
  idleMs: number
  claimedAt: number
  lastAt: number
  calls: number
  outcome: 'running' | 'ended' | 'aborted'
}

/** Oldest first. */
export type Episodes = Map<string, Episode>

/** Episodes that are remembered; of more, the oldest are not. */
const MOST = 10_000

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

export const isIdle = (episode: Episode, now: number): boolean => now - episode.lastAt > episode.idleMs

/** Claimed, not ended, heard within the time that its client gave it. */
export const mayContinue = (episode: Episode | undefined, client: string, now: number): boolean =>
  episode !== undefined && episode.client === client && episode.outcome === 'running' && !isIdle(episode, now)

export const running = (episodes: Episodes, key: string | null, now: number): Episode[] =>
  [...episodes.values()].filter(
    (episode) => episode.key === key && episode.outcome === 'running' && !isIdle(episode, now),
  )

export const ended = (episodes: Episodes, key: string | null): Episode[] =>
  [...episodes.values()].filter((episode) => episode.key === key && episode.outcome === 'ended')
