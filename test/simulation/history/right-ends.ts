/** Whether a scorer recorded the end of an episode correctly, given what it had read. */
import type { EpisodeEnded } from '@instar/events'
import type { Decided } from './decision.ts'
import type { Past } from './past.ts'
import { isCaughtUp } from './right-scores.ts'
import { rewardOf } from './scores.ts'
import type { Session } from './session.ts'

type Says = (holds: boolean, problem: string) => void

/** A session that names a task or has an outcome, and that a closing ended. */
export const isEndedEpisode = ({ turns, outcome, isClosed }: Session): boolean =>
  isClosed && (outcome !== null || turns.some(({ shown, event }) => shown && (event.task ?? null) !== null))

export const rightEnd = (
  past: Past,
  { share, received, seen }: Decided,
  { type: _, at: __, ...said }: EpisodeEnded,
  says: Says,
): void => {
  const session = past.session(said.session)
  const { turns, outcome, task } = session
  const [first] = turns
  if (!first || !isEndedEpisode(session)) return says(false, `ends ${said.session}, which is no episode that ended`)
  const { partition } = first.fact
  says(share.has(partition), `ends the episode ${said.session}, which is another's to end`)
  says(isCaughtUp(received.get(partition), seen), `ends ${said.session}, whose partition it has not caught up on`)
  const known = past.ends(said.policy).get(said.session)
  says(
    !known || (known.event.outcome === null && outcome !== null),
    `ends ${said.session} again, which ${known?.id} has ended`,
  )
  const closed = turns.flatMap(({ closedBy, discardedBy }) => [closedBy, discardedBy])
  says(
    outcome ? said.closing === outcome.id : closed.includes(said.closing),
    `ends ${said.session} by ${said.closing}, which did not end it`,
  )
  const scores = past.scores(said.policy)
  const untold = turns.filter(({ event, shown, discardedBy }) => {
    const score = scores.get(event.turn)
    const isJudged = shown && event.kind === 'main' && event.type === 'TurnCaptured' && event.trainable
    return discardedBy !== null && isJudged && (score === undefined || rewardOf(score) !== null)
  })
  says(
    untold.length === 0,
    `ends ${said.session}, of which no score says yet that ${untold[0]?.event.turn} was aborted`,
  )
  const covered = turns.filter(
    ({ event, outcome: covers }) =>
      covers !== null && event.kind === 'main' && event.type === 'TurnCaptured' && event.trainable,
  )
  const facts = {
    session: said.session,
    policy: first.event.policy,
    closing: said.closing,
    outcome: outcome?.value ?? null,
    endedAt: outcome?.at ?? null,
    task,
    key: first.event.key,
    begunAt: first.event.at,
    turns: covered.map(({ event }) => event.turn),
    part: 0,
    parts: 1,
  }
  says(
    JSON.stringify(said) === JSON.stringify(facts),
    `says of the end of ${said.session} ${JSON.stringify(said)}, the log ${JSON.stringify(facts)}`,
  )
}
