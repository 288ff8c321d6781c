/** Whether a scorer recorded the beginning of an episode correctly, given what it had read, and recorded all of them. */
import type { EpisodeBegun } from '@instar/events'
import type { Ends } from '../sim-log.ts'
import type { Decided } from './decision.ts'
import type { Past } from './past.ts'
import { isCaughtUp } from './right-scores.ts'
import type { Session } from './session.ts'

type Says = (holds: boolean, problem: string) => void

/** A session that is not closed, with a turn of a task that a batch may use. */
const isRunning = ({ turns, isClosed }: Session): boolean =>
  !isClosed &&
  turns.some(
    ({ shown, event }) => shown && (event.task ?? null) !== null && event.type === 'TurnCaptured' && event.trainable,
  )

export const rightBegin = (
  past: Past,
  { share, received, seen }: Decided,
  { type: _, at: __, ...said }: EpisodeBegun,
  says: Says,
): void => {
  const session = past.session(said.session)
  const [first] = session.turns
  if (!first || !isRunning(session)) return says(false, `begins ${said.session}, which is no episode that runs`)
  const { partition } = first.fact
  says(share.has(partition), `begins the episode ${said.session}, which is another's to begin`)
  says(isCaughtUp(received.get(partition), seen), `begins ${said.session}, whose partition it has not caught up on`)
  const known = past.begins(said.policy).get(said.session)
  says(!known || (known.event.task === '' && said.task !== ''), `begins ${said.session} again, as ${known?.id} says`)
  says(!past.ends(said.policy).has(said.session), `begins ${said.session}, whose end is on scores`)
  const facts = {
    session: said.session,
    policy: first.event.policy,
    task: session.task,
    key: first.event.key,
    begunAt: first.event.at,
  }
  says(
    JSON.stringify(said) === JSON.stringify(facts),
    `says of the beginning of ${said.session} ${JSON.stringify(said)}, the log ${JSON.stringify(facts)}`,
  )
}

/** A scorer that found nothing to append. `decided`: records that all processes had decided on. */
export type Rest = { writer: string; life: object; seen: Ends; partitions: ReadonlySet<number>; decided: number }

/** All episodes that ran had begun on scores, or their records were on their way. */
export const rightRest = (
  past: Past,
  { writer, life, partitions, decided }: Rest,
  decisions: readonly Decided[],
  policy: string,
  says: Says,
): void => {
  for (const [name, session] of past.sessions()) {
    if (!partitions.has(session.turns[0]?.fact.partition ?? -1) || !isRunning(session)) continue
    const sent = decisions
      .slice(0, decided)
      .flatMap((one) => (one.life === life && one.event.type === 'EpisodeBegun' ? [one.event] : []))
    const begun = [...sent.filter((event) => event.session === name), past.begins(policy).get(name)?.event]
    says(
      // Another scorer may have read a turn that names the task.
      past.ends(policy).has(name) ||
        begun.some((event) => event && (event.task === session.task || session.task === '')),
      `${writer} rests, and the episode ${name} has not begun on scores as one of ${session.task}`,
    )
  }
}
