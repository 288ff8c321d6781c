/** Whether a scorer or a client scored and closed correctly, given what it had read. */
import type { ScoreRevised, SessionClosed, TurnScored, TurnSkipped } from '@instar/events'
import type { Ends } from '../sim-log.ts'
import type { Decided } from './decision.ts'
import { isWanted } from './demand.ts'
import type { Past } from './past.ts'
import { stepsBehind } from './chains.ts'
import { rewardOf, type Score } from './scores.ts'
import { causeOf, isOpen, ratingOf, seenOf, type Session, type Turn } from './session.ts'

export type ScoringRules = {
  idleMs: number
  judgesNeedNextState: boolean
  staleness: number | null
  /** Scored turns that may wait for a batch; null: any number. */
  waiting: number | null
}
type Says = (holds: boolean, problem: string) => void

export const rightClosing = (
  past: Past,
  { now, share, received, seen }: Decided,
  event: SessionClosed,
  { idleMs }: ScoringRules,
  says: Says,
): void => {
  const { turns, lastAt, outcome } = past.session(event.session)
  const open = turns.filter(isOpen).map((turn) => turn.event.turn)
  says(open.join() === event.open.join(), `closes ${event.open.join()} of ${event.session}, open are ${open.join()}`)
  says(
    (event.outcome ?? null) === null || outcome === null,
    `ends ${event.session} with ${event.outcome}, which it has ended with ${outcome?.value}`,
  )
  says(
    event.discarded !== true || turns.some(({ discardedBy }) => discardedBy === null),
    `aborts ${event.session} again`,
  )
  if (event.why === 'client') return
  says(lastAt + idleMs <= now, `closes ${event.session} ${now - lastAt} after its last answer`)
  const partition = turns[0]?.fact.partition ?? -1
  says(share.has(partition), `closes ${event.session}, which is another's to close`)
  says(isCaughtUp(received.get(partition), seen), `closes ${event.session}, whose partition it has not caught up on`)
}

export const rightScore = (
  past: Past,
  { share, received, seen, note }: Decided,
  event: TurnScored | TurnSkipped | ScoreRevised,
  rules: ScoringRules,
  says: Says,
): void => {
  const turn = past.turn(event.turn)
  if (!turn) return says(false, `scores ${event.turn}, which it has not read`)
  const session = past.session(turn.event.session)
  const before = past.scores(event.policy).get(event.turn)
  const rating = ratingOf(turn)
  const held = before?.fact.event.rank ?? null
  const aborted = turn.discardedBy !== null
  const news =
    rating && (!held || rating.event.at > held.at || (rating.event.at === held.at && rating.event.id > held.id))
      ? rating
      : null
  const owed = aborted ? null : news
  const { opinion } = note
  for (const name of ['session', 'policy', 'version', 'subject'] as const)
    says(event[name] === turn.event[name], `scores ${event.turn} as if its ${name} were ${event[name]}`)
  const { group, candidates, key, task = null, at, finishedAt } = turn.event
  const unusable =
    turn.discardedBy !== null
      ? 'discarded'
      : turn.event.type === 'TurnAborted'
        ? (turn.event.reason ?? 'aborted')
        : turn.event.trainable
          ? null
          : (turn.event.reason ?? 'not_trainable')
  const facts = {
    record: turn.fact.id,
    group,
    candidates,
    shown: turn.shown,
    key,
    task,
    unusable,
    begunAt: session.turns[0]?.event.at,
    at,
    finishedAt,
    earlier: opinion?.earlier ?? null,
  }
  says(
    JSON.stringify(event.of) === JSON.stringify(facts),
    `says of ${event.turn} ${JSON.stringify(event.of)}, the log ${JSON.stringify(facts)}`,
  )
  says(share.has(turn.fact.partition), `scores ${event.turn}, which is another's to score`)
  says(
    isCaughtUp(received.get(turn.fact.partition), seen),
    `scores ${event.turn}, whose partition it has not caught up on`,
  )
  if (owed) {
    says(event.cause === owed.id, `scores ${event.turn} for ${event.cause}, rated by ${owed.id}`)
    says(
      event.type === (before ? 'ScoreRevised' : 'TurnScored') && event.reward === owed.event.value,
      `does not give ${event.turn} the ${owed.event.value} that its user said`,
    )
    says(
      event.rank?.at === owed.event.at && event.rank.id === owed.event.id,
      `ranks the rating of ${event.turn} otherwise than ${owed.event.id}`,
    )
  } else if (aborted) {
    says(event.cause === turn.discardedBy, `scores ${event.turn} for ${event.cause}, aborted by ${turn.discardedBy}`)
    says(event.type === 'TurnSkipped' && event.reason === 'discarded', `judges ${event.turn} of an aborted episode`)
    says(
      !before || news !== null || rewardOf(before) !== null || (isCovered(session, turn) && !saysAborted(before)),
      `skips ${event.turn} of an aborted episode again`,
    )
    says(
      before || rating ? event.rank?.at === 8.64e15 && event.rank.id === turn.discardedBy : event.rank === null,
      `ranks the abort of ${event.turn} as ${JSON.stringify(event.rank)}`,
    )
  } else {
    says(!before, `scores ${event.turn} again`)
    says(event.rank === null, `ranks what a judge says of ${event.turn}`)
    says(
      causeOf(session, turn) === event.cause,
      `scores ${event.turn} for ${event.cause}, what came of it is ${causeOf(session, turn)}`,
    )
    const answered = turn.shown && seenOf(session, turn)?.next !== null
    if (!opinion)
      says(
        event.type === 'TurnSkipped' && event.reason === 'no_next_state' && !answered && rules.judgesNeedNextState,
        `asks no judge about ${event.turn}`,
      )
    else says(answered || !rules.judgesNeedNextState, `asks judges about ${event.turn}, to which nobody said anything`)
  }
  if (!opinion) return
  if (!owed)
    says(
      (opinion.reason === 'stale') === isStale(past, event.policy, event.version, rules),
      `${opinion.reason === 'stale' ? 'passes over' : 'asks judges about'} ${event.turn} of version ${event.version}`,
    )
  if (!owed && opinion.reason !== 'stale' && opinion.reason !== 'overloaded') {
    const wanted = isWanted(past, note.begun ?? new Map(), turn, rules)
    says(
      (opinion.reason === 'surplus') !== wanted,
      wanted
        ? `asks no judge about ${event.turn}, for which there is room`
        : `asks judges about ${event.turn}, though enough scored turns wait`,
    )
  }
  if (opinion.reward === null)
    return says(
      event.type === 'TurnSkipped' && event.reason === opinion.reason,
      `makes a score of ${event.turn} where judges abstained`,
    )
  if (event.type === 'TurnSkipped') return says(false, `skips ${event.turn}, which a judge gave ${opinion.reward}`)
  const kept = before && before.fact.event.type !== 'TurnSkipped' && event.reward < 0 ? before.fact.event.hint : null
  const hint = opinion.hint ?? (kept && new TextDecoder().decode(kept.bytes))
  says(
    (event.hint && new TextDecoder().decode(event.hint.bytes)) === hint,
    `gives ${event.turn} the hint ${JSON.stringify(event.hint)}, not ${hint}`,
  )
  says(
    event.reward === opinion.reward && event.judge === opinion.judge,
    `gives ${event.turn} ${event.reward}, the judge said ${opinion.reward}`,
  )
}

/** Whether an outcome covers a turn of which judges are asked: a batch may take it without a reward of its own. */
export const isCovered = (session: Session, turn: Turn): boolean =>
  turn.outcome !== null && causeOf(session, turn) !== null

export const saysAborted = ({ fact: { event } }: Score): boolean =>
  event.type === 'TurnSkipped' && event.reason === 'discarded'

/** All that was on the log when the partition was received has been read. */
export const isCaughtUp = (received: Ends | undefined, seen: Ends): boolean =>
  received !== undefined && [...received].every(([slot, end]) => (seen.get(slot) ?? 0) >= end)

/** No batch would take it. */
const isStale = (past: Past, policy: string, version: number, { staleness }: ScoringRules): boolean => {
  const line = past.line(policy)
  const steps = stepsBehind(line, version)
  return (
    staleness !== null &&
    line.versions.some(({ number }) => number === version) &&
    (steps === null || steps > staleness)
  )
}
