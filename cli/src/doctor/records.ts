/** Reads, decodes and folds every record of the log. */
import {
  decodeRecord,
  FLOW,
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  InstarError,
  TOPICS,
  type Logged,
  type FoldOutcome,
  type ScoresEvent,
  type Topic,
  type TurnsEvent,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import type { EventLog } from '@instar/log'

type Folds = Partial<Record<Topic, (logged: Logged) => FoldOutcome>>

export type Unreadable = { topic: Topic; partition: number; offset: number; reason: string }

/** Records that cannot be decoded and are listed; further ones are only counted. */
const MAX_UNREADABLE = 10_000

/**
 * `summary`: records of each topic. `unreadable`: records of topics without a chain whose bytes do not match their
 * schema. Throws for a gap in a chain, a damaged record of a chained topic, or a record of an unknown type.
 */
export const readRecords = async (log: EventLog): Promise<{ summary: string; unreadable: Unreadable[] }> => {
  const [turns, scores, updates, weights] = [initialTurns(), initialScores(), initialUpdates(), initialWeights()]
  const folds: Folds = {
    turns: (logged) => foldTurns(turns, logged as Logged<TurnsEvent>),
    scores: (logged) => foldScores(scores, logged as Logged<ScoresEvent>),
    updates: (logged) => foldUpdates(updates, logged as Logged<UpdatesEvent>),
    weights: (logged) => foldWeights(weights, logged as Logged<WeightsEvent>),
  }
  const counts: string[] = []
  const unreadable: Unreadable[] = []
  let ignored = 0
  let beyond = 0
  for (const topic of TOPICS) {
    let count = 0
    for await (const records of log.read(topic)) {
      for (const record of records) {
        count++
        try {
          if (folds[topic]?.(decodeRecord(record)).counted === false) ignored++
        } catch (error) {
          if (!(error instanceof InstarError) || error.code !== 'bad_record' || FLOW[topic].chain) throw error
          if (unreadable.length === MAX_UNREADABLE) beyond++
          else unreadable.push({ topic, partition: record.partition, offset: record.offset, reason: error.message })
        }
      }
    }
    counts.push(`${count} ${topic}${FLOW[topic].chain ? ' (chain complete)' : ''}`)
  }
  const more = beyond === 0 ? '' : `; ${beyond} more that cannot be decoded than are listed`
  return { summary: `${counts.join(', ')}; ${ignored} ignored${more}`, unreadable }
}
