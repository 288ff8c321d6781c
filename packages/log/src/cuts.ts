/** Cuts of a log: what `LogCut` records allow, and the error for what was cut away. */
import { decodeReadable, type LogCut } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { EventLog, LogRecord, Offsets, ReadOptions } from './port.ts'

/** The topics of which records may be cut: whatever refers to a version, a blob or the log as a whole stays. */
export const CUT_TOPICS = ['turns', 'scores'] as const satisfies readonly Topic[]

/** `id`: of the record. */
export type Cut = { id: string; event: LogCut }

/** The cut that a record of `upgrades` allows; null: it is no such record, or cannot be read. */
export const cutOf = (record: LogRecord): Cut | null => {
  if (!record.schema.startsWith('LogCut.')) return null
  const logged = decodeReadable(record)
  return logged?.event.type === 'LogCut' ? { id: logged.id, event: logged.event } : null
}

/** In the order of the log, up to its end as of the call. */
export const cutsOn = async (log: Pick<EventLog, 'read'>): Promise<Cut[]> => {
  const found: Cut[] = []
  for await (const records of log.read('upgrades'))
    for (const record of records) {
      const cut = cutOf(record)
      if (cut) found.push(cut)
    }
  return found
}

/** Of each partition the offset below which all of the cuts together allow that records are deleted; 0 for those that are absent. */
export const allowedStarts = (cuts: readonly { event: Pick<LogCut, 'starts'> }[]): Offsets => {
  const allowed: Partial<Record<Topic, Record<number, number>>> = {}
  for (const { event } of cuts)
    for (const { topic, partition, start } of event.starts) {
      const known = CUT_TOPICS.find((one) => one === topic)
      if (!known) continue
      const of = (allowed[known] ??= {})
      of[partition] = Math.max(start, of[partition] ?? 0)
    }
  return allowed
}

/** The first of these offsets that is above what is allowed; undefined: none is. */
export const notAllowed = (
  starts: Offsets,
  allowed: Offsets,
): { topic: Topic; partition: number; start: number } | undefined =>
  (Object.entries(starts) as [Topic, Readonly<Record<number, number>>][])
    .flatMap(([topic, of]) =>
      Object.entries(of).map(([partition, start]) => ({ topic, partition: Number(partition), start })),
    )
    .find(({ topic, partition, start }) => start > (allowed[topic]?.[partition] ?? 0))

/** Throws `internal` for offsets that may not be cut. */
export const requireAllowed = (starts: Offsets, cuts: readonly Cut[]): void => {
  const above = notAllowed(starts, allowedStarts(cuts))
  if (!above) return
  const { topic, partition, start } = above
  throw new InstarError('internal', `no record on the log allows that ${topic} ${partition} begins at ${start}`, above)
}

/** The error for records below the start of a partition, which a cut has deleted. */
export const cutAway = (topic: Topic, partition: number, start: number): InstarError =>
  new InstarError(
    'log_cut',
    `${topic} ${partition} begins at offset ${start}: the records before it were cut from the log and are in its archive`,
    { topic, partition, start },
  )

/** Whether an error is that of `cutAway`. */
export const isCutAway = (error: unknown): boolean => error instanceof InstarError && error.code === 'log_cut'

/**
 * As `read`; of a log that was cut, what it still holds where some of what is asked for may be gone. For who looks for records that
 * may be anywhere, and takes what is cut for what is not there. A record may be given out again.
 */
export async function* readHeld(
  log: Pick<EventLog, 'read' | 'starts'>,
  topic: Topic,
  options: ReadOptions,
): AsyncGenerator<LogRecord[]> {
  try {
    yield* log.read(topic, options)
  } catch (error) {
    if (!isCutAway(error)) throw error
    yield* log.read(topic, { ...options, from: (await log.starts?.([topic])) ?? {} })
  }
}
