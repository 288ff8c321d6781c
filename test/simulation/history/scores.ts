/** The score of a turn in force: the judges' first, unless a user rated the turn. */
import type { EpisodeBegun, EpisodeEnded, EpisodeRecord, ScoresEvent } from '@instar/events'
import type { Fact } from './facts.ts'

export type Score = {
  fact: Fact<ScoresEvent>
  /** The record that counted first. */ first: Fact<ScoresEvent>
  revision: number
  counted: Fact<ScoresEvent>[]
}

/** `facts`: all records of one policy. */
export const scoresOf = (facts: readonly Fact<ScoresEvent | EpisodeRecord>[]): Map<string, Score> => {
  const scores = facts.filter((fact): fact is Fact<ScoresEvent> => 'turn' in fact.event)
  return new Map([...Map.groupBy(scores, ({ event }) => event.turn)].map(([turn, all]) => [turn, scoreOf(all)]))
}

/**
 * By session the record of its end in force: the first with an outcome, or else the first. Sessions here are too short for an end in
 * several records.
 */
export const endsOf = (facts: readonly Fact<ScoresEvent | EpisodeRecord>[]): Map<string, Fact<EpisodeEnded>> =>
  inForce(
    facts.filter((fact): fact is Fact<EpisodeEnded> => fact.event.type === 'EpisodeEnded'),
    ({ outcome }) => outcome !== null,
  )

/** By session the record of its beginning in force: the first that names a task, or else the first. */
export const beginsOf = (facts: readonly Fact<ScoresEvent | EpisodeRecord>[]): Map<string, Fact<EpisodeBegun>> =>
  inForce(
    facts.filter((fact): fact is Fact<EpisodeBegun> => fact.event.type === 'EpisodeBegun'),
    ({ task }) => task !== '',
  )

const inForce = <E extends EpisodeRecord>(
  facts: readonly Fact<E>[],
  says: (event: E) => boolean,
): Map<string, Fact<E>> =>
  new Map(
    [...Map.groupBy(facts, ({ event }) => event.session)].map(([session, all]) => [
      session,
      all.find(({ event }) => says(event)) ?? all[0]!,
    ]),
  )

const scoreOf = (records: readonly Fact<ScoresEvent>[]): Score => {
  const counted = records.filter((one, i) => i === 0 || records.slice(0, i).every((before) => isAbove(one, before)))
  return { fact: counted.at(-1)!, first: counted[0]!, revision: counted.length - 1, counted }
}

const isAbove = ({ event: { rank } }: Fact<ScoresEvent>, { event: { rank: other } }: Fact<ScoresEvent>): boolean =>
  rank !== null && (other === null || rank.at > other.at || (rank.at === other.at && rank.id > other.id))

export const rewardOf = ({ fact: { event } }: Score): number | null =>
  event.type === 'TurnSkipped' ? null : event.reward
