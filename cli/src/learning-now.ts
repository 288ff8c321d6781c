/** Reads from the log what learning does. */
import type { BatchState } from '@instar/events'
import { usableVersions } from '@instar/trainer'
import type { Config } from './config.ts'
import { learningSettings } from './learning-settings.ts'
import { learningText } from './learning-text.ts'
import { hasLog, POLICY, withLog } from './log-access.ts'
import { countPending } from './pending-scores.ts'
import type { VersionHistory } from './versions.ts'

/** Earlier updates whose time is the measure of the one that is being computed. */
const MEASURED = 5

/**
 * The scored turns that wait for a batch. Turns of earlier batches are looked up in those that were sealed on the oldest
 * usable version or a later one: no other batch has turns of it. Times do not tell, since a clock may be set back.
 */
const pendingTurns = async (
  config: Config,
  { weights }: VersionHistory,
  own: readonly BatchState[],
  staleness: number,
): Promise<number> => {
  if (!hasLog(config)) return 0
  const versions = usableVersions(weights, staleness)
  const oldest = versions.at(-1)!
  const since = weights.versions.get(oldest)?.at ?? 0
  const sealed = own.map((batch) => batch.sealed).filter(({ parent }) => parent.version >= oldest)
  const spent = new Set(sealed.flatMap(({ items, dropped }) => [...items, ...dropped].map(({ turn }) => turn)))
  return withLog(config, (log) => countPending(log, { policy: POLICY, versions: new Set(versions), since, spent }))
}

/** One line (`learningText`). Reads the newest part of the topic `scores`, if the line depends on it. */
export const readLearning = async (config: Config, history: VersionHistory, now: number): Promise<string> => {
  const { weights, batches } = history
  const own = batches.filter(({ sealed }) => sealed.policy === POLICY)
  const last = own.at(-1)
  const settings = last?.sealed.settings ?? {}
  const trainer = learningSettings(config).trainer
  const waits =
    weights.started !== null &&
    !weights.frozen &&
    last?.status !== 'sealed' &&
    !(last?.status === 'computed' && !weights.verdicts.has(last.update?.id ?? ''))
  const pending = waits ? await pendingTurns(config, history, own, settings.staleness ?? trainer.staleness) : 0
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
      pending,
      batchSize: settings.batchSize ?? trainer.batchSize,
      rejectionsInARow: weights.rejectionsInARow,
    },
    now,
  )
}
