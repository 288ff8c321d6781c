/** Reads from the log what learning does. */
import { decodeReadable, type ScoresEvent } from '@instar/events'
import type { Config } from './config.ts'
import { learningSettings } from './learning-settings.ts'
import { learningText } from './learning-text.ts'
import { hasLog, POLICY, withLog } from './log-access.ts'
import type { VersionHistory } from './versions.ts'

/** Earlier updates whose time is the measure of the one that is being computed. */
const MEASURED = 5

/** One line (`learningText`). Reads the topic `scores`. */
export const readLearning = async (
  config: Config,
  { weights, batches }: VersionHistory,
  now: number,
): Promise<string> => {
  const own = batches.filter(({ sealed }) => sealed.policy === POLICY)
  const spent = new Set(own.flatMap(({ sealed }) => [...sealed.items, ...sealed.dropped].map(({ turn }) => turn)))
  const pending = new Set<string>()
  if (hasLog(config))
    await withLog(config, async (log) => {
      for await (const records of log.read('scores', { to: await log.ends(['scores']) }))
        for (const record of records) {
          const event = decodeReadable(record)?.event as ScoresEvent | undefined
          if (event?.type === 'TurnScored' && event.policy === POLICY && !spent.has(event.turn)) pending.add(event.turn)
        }
    })
  const last = own.at(-1)
  return learningText(
    {
      started: weights.started !== null,
      frozen: weights.frozen,
      batch: last
        ? {
            number: last.sealed.number,
            status: last.status,
            reason: last.reason,
            verdict: last.update !== null && weights.verdicts.has(last.update.id),
            at: last.sealed.at,
            turns: last.sealed.items.length,
          }
        : null,
      turnMs: own
        .flatMap(({ sealed, update }) =>
          update ? [(update.event.at - update.event.startedAt) / sealed.items.length] : [],
        )
        .slice(-MEASURED),
      pending: pending.size,
      batchSize: last?.sealed.settings.batchSize ?? learningSettings(config).trainer.batchSize,
      rejectionsInARow: weights.rejectionsInARow,
    },
    now,
  )
}
