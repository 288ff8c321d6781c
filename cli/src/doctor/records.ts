/** Every record of the log, decoded and folded. */
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

/**
 * `unreadable`: records outside the chains whose bytes break their schema. Throws what a gap in a chain, a damaged
 * record of one, or an unknown record is.
 */
export const readRecords = async (log: EventLog): Promise<{ said: string; unreadable: Unreadable[] }> => {
  const [turns, scores, updates, weights] = [initialTurns(), initialScores(), initialUpdates(), initialWeights()]
  const folds: Folds = {
    turns: (logged) => foldTurns(turns, logged as Logged<TurnsEvent>),
    scores: (logged) => foldScores(scores, logged as Logged<ScoresEvent>),
    updates: (logged) => foldUpdates(updates, logged as Logged<UpdatesEvent>),
    weights: (logged) => foldWeights(weights, logged as Logged<WeightsEvent>),
  }
  const said: string[] = []
  const unreadable: Unreadable[] = []
  let ignored = 0
  for (const topic of TOPICS) {
    let count = 0
    for await (const records of log.read(topic)) {
      for (const record of records) {
        count++
        try {
          if (folds[topic]?.(decodeRecord(record)).counted === false) ignored++
        } catch (error) {
          if (!(error instanceof InstarError) || error.code !== 'bad_record' || FLOW[topic].chain) throw error
          unreadable.push({ topic, partition: record.partition, offset: record.offset, reason: error.message })
        }
      }
    }
    said.push(`${count} ${topic}${FLOW[topic].chain ? ' (chain whole)' : ''}`)
  }
  return { said: `${said.join(', ')}; ${ignored} ignored`, unreadable }
}
