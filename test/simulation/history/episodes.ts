/** Episodes in training: which turns wait for an outcome, and which groups of a task may be trained on. */
import { stepsBehind, type Line } from './chains.ts'
import type { Past } from './past.ts'
import type { Score } from './scores.ts'
import type { Session, Turn } from './session.ts'

export type EpisodeRules = { staleness: number; taskEpisodes: number; taskWaitMs: number }
type WaitingTurn = { turn: Turn; score: Score | null }

/** An outcome covers it, or its session has a task and has not ended. */
export const isOfEpisode = ({ isClosed }: Session, { event, shown, outcome }: Turn): boolean =>
  outcome !== null || (shown && (event.task ?? null) !== null && !isClosed)

/**
 * The turns of the groups that may be trained on, in the order of the first end of each; null if times that are equal
 * leave that order open. A group: the episodes of a task that began first, whichever ended first.
 */
export const readyGroups = <W extends WaitingTurn>(
  past: Past,
  waiting: readonly W[],
  line: Line,
  now: number,
  { staleness, taskEpisodes, taskWaitMs }: EpisodeRules,
): W[][] | null => {
  const bySession = Map.groupBy(
    waiting.filter(({ turn }) => isOfEpisode(past.session(turn.event.session), turn)),
    ({ turn }) => turn.event.session,
  )
  // Known from scores alone: without a turn yet, or with all of them dropped.
  for (const [name, { isTold, isClosed, awaited }] of past.sessions())
    if (((isTold && !isClosed) || awaited.length > 0) && !bySession.has(name)) bySession.set(name, [])
  const episodes = [...bySession].map(([name, turns]) => {
    const { outcome, task, begunAt, awaited } = past.session(name)
    return {
      name,
      task,
      outcome,
      begunAt,
      isScored: awaited.length === 0 && turns.every(({ score }) => score !== null),
      turns: turns.sort((a, b) => a.turn.fact.at - b.turn.fact.at),
    }
  })
  const ready: { endedAt: number; turns: W[] }[] = []
  let isOrdered = true
  for (const [, all] of Map.groupBy(episodes, ({ task, name }) => (task === '' ? `one ${name}` : `task ${task}`))) {
    const size = all[0]!.task === '' ? 1 : taskEpisodes
    const inOrder = all.toSorted((a, b) => a.begunAt - b.begunAt)
    isOrdered &&= new Set(all.map(({ begunAt }) => begunAt)).size === all.length
    for (let at = 0; at < inOrder.length; at += size) {
      const over = inOrder.slice(at, at + size).filter(({ outcome }) => outcome !== null)
      const endedAt = Math.min(...over.map(({ outcome }) => outcome!.at))
      const isComplete = over.length === size && over.every(({ isScored }) => isScored)
      if (!isComplete && now < endedAt + taskWaitMs) continue
      const turns = over
        .flatMap((episode) => episode.turns)
        .filter(({ score, turn }) => {
          const steps = stepsBehind(line, turn.event.version)
          return score !== null && steps !== null && steps <= staleness
        })
      if (turns.length > 0) ready.push({ endedAt, turns })
    }
  }
  isOrdered &&= new Set(ready.map(({ endedAt }) => endedAt)).size === ready.length
  return isOrdered ? ready.toSorted((a, b) => a.endedAt - b.endedAt).map(({ turns }) => turns) : null
}
