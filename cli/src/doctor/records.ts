/** Reads, decodes and folds every record of the log. The folds are in a temporary file, so that memory does not grow with it. */
import {
  decodeRecord,
  FLOW,
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  InstarError,
  isEpisodeRecord,
  TOPICS,
  type Logged,
  type FoldOutcome,
  type ScoresEvent,
  type Topic,
  type TurnsEvent,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import {
  openTemporaryTables,
  storedScores,
  storedTurns,
  storedUpdates,
  storedWeights,
  type EventLog,
  type Snapshot,
  type TemporaryTables,
} from '@instar/log'

/** Null: the record has no fold. */
type Folds = Partial<Record<Topic, (logged: Logged) => FoldOutcome | null>>

export type Unreadable = { topic: Topic; partition: number; offset: number; reason: string }

/** Records that cannot be decoded and are listed; further ones are only counted. */
const MAX_UNREADABLE = 10_000

const foldsOn = (snapshot: Snapshot): Folds => {
  const [turns, scores] = [storedTurns(snapshot), storedScores(snapshot, '')]
  const [updates, weights] = [storedUpdates(snapshot, { training: false }), storedWeights(snapshot)]
  return {
    turns: (logged) => foldTurns(turns, logged as Logged<TurnsEvent>),
    scores: (logged) => (isEpisodeRecord(logged.event) ? null : foldScores(scores, logged as Logged<ScoresEvent>)),
    updates: (logged) => foldUpdates(updates, logged as Logged<UpdatesEvent>),
    weights: (logged) => foldWeights(weights, logged as Logged<WeightsEvent>),
  }
}

type Records = { summary: string; unreadable: Unreadable[] }

/**
 * `summary`: records of each topic. `unreadable`: records of topics without a chain whose bytes do not match their
 * schema. Throws for a gap in a chain, a damaged record of a chained topic, or a record of an unknown type; `no_temporary_file`.
 */
export const readRecords = async (log: EventLog): Promise<Records> => {
  const tables = await openTemporaryTables(log)
  try {
    return await readWith(log, tables)
  } finally {
    await tables.close()
  }
}

const readWith = async (log: EventLog, { snapshot, afterFold }: TemporaryTables): Promise<Records> => {
  const folds = foldsOn(snapshot)
  const counts: string[] = []
  /** Topics of which the log does not have the first records any more. */
  const cut: Topic[] = []
  const unreadable: Unreadable[] = []
  let ignored = 0
  let beyond = 0
  for (const topic of TOPICS) {
    let count = 0
    const { [topic]: starts = {} } = (await log.starts?.([topic])) ?? {}
    if (Object.values(starts).some(Boolean)) cut.push(topic)
    for await (const records of log.read(topic, { from: { [topic]: starts } })) {
      for (const record of records) {
        count++
        try {
          const fold = folds[topic]
          if (!fold) continue
          const logged = decodeRecord(record)
          if (fold(logged)?.counted === false) ignored++
          const written = afterFold(logged)
          if (written) await written
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
  const begins = cut.length === 0 ? '' : `; the first records of ${cut.join(' and ')} were cut, and are in the archive`
  return { summary: `${counts.join(', ')}; ${ignored} ignored${more}${begins}`, unreadable }
}
