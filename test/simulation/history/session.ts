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
  feedback: Fact<FeedbackGiven>[]
  attempt: number
}
export type Session = { turns: Turn[]; parent: string | null; lastAt: number }

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
  }
  for (const fact of opinions(facts, turns)) turnRated(turns, fact)!.feedback.push(fact)
  const link = facts.find(
    (fact): fact is Fact<SessionLinked> =>
      fact.event.type === 'SessionLinked' && turns.some((turn) => turn.fact.at < fact.at),
  )
  return {
    turns,
    parent: link?.event.parent ?? null,
    lastAt: Math.max(0, ...turns.filter(({ shown }) => shown).map(({ event }) => event.finishedAt)),
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
    : (seen.next ?? seen.closedBy)
}

/** The feedback in force: the latest by the clock of its gateway, of two at one time the one with the higher id. */
export const ratingOf = (turn: Turn): Fact<FeedbackGiven> | null =>
  turn.feedback.toSorted(({ event: a }, { event: b }) => a.at - b.at || (a.id < b.id ? -1 : 1)).at(-1) ?? null
