/**
 * The state of one session, computed for each turn from the whole list of records: what it continues, and its first
 * result. It uses no fold.
 */
import type {
  FeedbackGiven,
  SessionClosed,
  SessionLinked,
  TurnAborted,
  TurnCaptured,
  TurnSampled,
  TurnsEvent,
} from '@instar/events'
import type { Fact } from './facts.ts'

type Spoken = TurnCaptured | TurnAborted | TurnSampled
export type Turn = {
  fact: Fact<Spoken>
  event: Spoken
  shown: boolean
  follows: string | null
  next: string | null
  /** Id of the record that closed it. */
  closedBy: string | null
  /** Id of the first record after it that aborted the episode. */
  discardedBy: string | null
  /** The outcome of the episode, if it covers the turn. */
  outcome: Outcome | null
  feedback: Fact<FeedbackGiven>[]
  attempt: number
}
/** `id`: of the closing. `at`: its time. */
export type Outcome = { value: number; id: string; at: number }
/**
 * `task`: of its turns; '' where none is named. `begunAt`: time of its first turn. `isClosed`: a closing counted. `closings`:
 * places of all of them in the partition, with their ids. Known from scores alone (told-session.ts): `isTold`: they say that
 * it is an episode; `awaited`: turns that its outcome covers and that have no score yet.
 */
export type Session = {
  turns: Turn[]
  parent: string | null
  lastAt: number
  outcome: Outcome | null
  task: string
  begunAt: number
  isClosed: boolean
  closings: { id: string; at: number }[]
  isTold: boolean
  awaited: readonly string[]
}

const isSpoken = (event: TurnsEvent): event is Spoken =>
  event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled'

export const sessionOf = (name: string, facts: readonly Fact<TurnsEvent>[]): Session => {
  const spoken = firsts(
    facts.filter((fact): fact is Fact<Spoken> => isSpoken(fact.event) && fact.event.turn.startsWith(`${name}.`)),
    ({ event }) => event.turn,
  )
  const turns = spoken.map((fact): Turn => ({
    fact,
    event: fact.event,
    shown: fact.event.type !== 'TurnSampled',
    follows: predecessor(spoken, fact)?.event.turn ?? null,
    next: null,
    closedBy: null,
    discardedBy: null,
    outcome: null,
    feedback: [],
    attempt: new Set(
      spoken
        .filter(({ at, event }) => at <= fact.at && event.digest === fact.event.digest)
        .map(({ event }) => event.group),
    ).size,
  }))
  const closings = facts.filter((fact): fact is Fact<SessionClosed> => fact.event.type === 'SessionClosed')
  for (const turn of turns) {
    const {
      at,
      event: { turn: id },
    } = turn.fact
    const next = turns.find((other) => other.follows === id)
    const closing = closings.find((one) => one.at > at && one.event.open.includes(id))
    if (next && !(closing && closing.at < next.fact.at)) turn.next = next.event.turn
    else if (closing) turn.closedBy = closing.id
    turn.discardedBy = closings.find((one) => one.at > at && one.event.discarded === true)?.id ?? null
  }
  const ended = closings.find(({ at, event }) => (event.outcome ?? null) !== null && (turns[0]?.fact.at ?? at) < at)
  const outcome = ended ? { value: ended.event.outcome ?? 0, id: ended.id, at: ended.event.at } : null
  for (const turn of turns) if (ended && turn.shown && turn.fact.at < ended.at) turn.outcome = outcome
  for (const fact of opinions(facts, turns)) turnRated(turns, fact)!.feedback.push(fact)
  const link = facts.find(
    (fact): fact is Fact<SessionLinked> =>
      fact.event.type === 'SessionLinked' && turns.some((turn) => turn.fact.at < fact.at),
  )
  return {
    turns,
    parent: link?.event.parent ?? null,
    lastAt: Math.max(0, ...turns.filter(({ shown }) => shown).map(({ event }) => event.finishedAt)),
    outcome,
    task: turns.find(({ event }) => event.task)?.event.task ?? '',
    begunAt: turns[0]?.event.at ?? 0,
    isClosed: turns.some(
      ({ closedBy, discardedBy, outcome: covers }) => closedBy !== null || discardedBy !== null || covers !== null,
    ),
    closings: closings.map(({ id, at }) => ({ id, at })),
    isTold: false,
    awaited: [],
  }
}

const firsts = <T>(items: readonly T[], by: (item: T) => string): T[] =>
  [...Map.groupBy(items, by).values()].map(([first]) => first!)

/** Turns with this answer to another request; of the latest request the first candidate. */
const predecessor = (
  spoken: readonly Fact<Spoken>[],
  { at, event: { after, kind, type, digest } }: Fact<Spoken>,
): Fact<Spoken> | undefined => {
  if (after === null || kind !== 'main' || type === 'TurnSampled') return undefined
  const before = spoken.filter((one) => one.at < at && one.event.type !== 'TurnSampled' && one.event.digest !== digest)
  const same = before.filter(({ event: { answer } }) => answer.strict === after.strict)
  const alike = same.length > 0 ? same : before.filter(({ event: { answer } }) => answer.loose === after.loose)
  const latest = alike.at(-1)?.event.group
  return alike.find(({ event }) => event.group === latest)
}

/** Each id once: the first record about a turn before it. */
const opinions = (facts: readonly Fact<TurnsEvent>[], turns: readonly Turn[]): Fact<FeedbackGiven>[] => {
  const given = facts.filter((fact): fact is Fact<FeedbackGiven> => fact.event.type === 'FeedbackGiven')
  return firsts(
    given.filter((fact) => turnRated(turns, fact)),
    ({ event }) => event.id,
  )
}

const turnRated = (turns: readonly Turn[], { at, event }: Fact<FeedbackGiven>): Turn | undefined => {
  const before = turns.filter((turn) => turn.fact.at < at)
  return event.turn === null
    ? before.filter(({ shown }) => shown).at(-1)
    : before.find((turn) => turn.event.turn === event.turn)
}

export const isOpen = ({ shown, next, closedBy }: Turn): boolean => shown && next === null && closedBy === null

/** The next state of a turn belongs to the shown candidate of its request. */
export const seenOf = ({ turns }: Session, turn: Turn): Turn | undefined =>
  turn.shown ? turn : turns.find(({ shown, event }) => shown && event.group === turn.event.group)

/** The record that requires a score of this turn; null while there is none that counts for it. */
export const causeOf = (session: Session, turn: Turn): string | null => {
  const seen = seenOf(session, turn)
  const { event } = turn
  return !seen || event.type === 'TurnAborted' || event.kind !== 'main' || !event.trainable
    ? null
    : (turn.discardedBy ?? seen.next ?? seen.closedBy)
}

/** The feedback in force: the latest by the clock of its gateway, of two at one time the one with the higher id. */
export const ratingOf = (turn: Turn): Fact<FeedbackGiven> | null =>
  turn.feedback.toSorted(({ event: a }, { event: b }) => a.at - b.at || (a.id < b.id ? -1 : 1)).at(-1) ?? null
