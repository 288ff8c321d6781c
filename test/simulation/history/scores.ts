/** The score of a turn in force: the judges' first, unless a user rated the turn. */
import type { ScoresEvent } from '@instar/events'
import type { Fact } from './facts.ts'

export type Score = {
  fact: Fact<ScoresEvent>
  /** The record that counted first. */ first: Fact<ScoresEvent>
  revision: number
  counted: Fact<ScoresEvent>[]
}

/** `facts`: all records of one policy. */
export const scoresOf = (facts: readonly Fact<ScoresEvent>[]): Map<string, Score> =>
  new Map([...Map.groupBy(facts, ({ event }) => event.turn)].map(([turn, records]) => [turn, scoreOf(records)]))

const scoreOf = (records: readonly Fact<ScoresEvent>[]): Score => {
  const counted = records.filter((one, i) => i === 0 || records.slice(0, i).every((before) => isAbove(one, before)))
  return { fact: counted.at(-1)!, first: counted[0]!, revision: counted.length - 1, counted }
}

const isAbove = ({ event: { rank } }: Fact<ScoresEvent>, { event: { rank: other } }: Fact<ScoresEvent>): boolean =>
  rank !== null && (other === null || rank.at > other.at || (rank.at === other.at && rank.id > other.id))

export const rewardOf = ({ fact: { event } }: Score): number | null =>
  event.type === 'TurnSkipped' ? null : event.reward
