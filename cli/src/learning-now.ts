/** Reads from the log what learning does. */
import { decodeReadable, type Logged, type UpdatesEvent } from '@instar/events'
import type { EventLog } from '@instar/log'
import { usableVersions } from '@instar/trainer'
import type { Config } from './config.ts'
import { learningSettings } from './learning-settings.ts'
import { learningText } from './learning-text.ts'
import { askingNow } from './line-start.ts'
import { hasLog, POLICY, withLog } from './log-access.ts'
import { countPending, type ScoreCounts } from './pending-scores.ts'
import { whyBatchWaits } from './trainer-waits.ts'
import type { BatchRow, VersionHistory } from './versions.ts'

/** Earlier updates whose time is the measure of the one that is being computed. */
const MEASURED = 5

/**
 * The scored turns that wait for a batch. Turns of earlier batches are looked up in those that were sealed on the oldest
 * usable version or a later one: no other batch has turns of it. Times do not tell, since a clock may be set back.
 */
const pendingTurns = async (
  config: Config,
  { weights }: VersionHistory,
  own: readonly BatchRow[],
  staleness: number,
  stop: AbortSignal | undefined,
): Promise<ScoreCounts> => {
  if (!hasLog(config)) return NOTHING
  const versions = usableVersions(weights, staleness)
  const oldest = versions.at(-1)!
  const since = weights.versions.get(oldest)?.at ?? 0
  const sealed = new Set(own.flatMap(({ id, parent }) => (parent >= oldest ? [id] : [])))
  const count = async (log: EventLog): Promise<ScoreCounts> => {
    const spent = await turnsOf(log, sealed)
    return countPending(log, { policy: POLICY, versions: new Set(versions), since, spent })
  }
  return withLog(config, count, stop)
}

/** The turns of these batches, trained or dropped. */
const turnsOf = async (log: EventLog, batches: ReadonlySet<string>): Promise<Set<string>> => {
  const turns = new Set<string>()
  if (batches.size === 0) return turns
  const to = await log.ends(['updates'])
  for await (const records of log.read('updates', { key: POLICY, to }))
    for (const record of records) {
      const { id, event } = (decodeReadable(record) as Logged<UpdatesEvent> | null) ?? {}
      if (event?.type !== 'BatchSealed' || !batches.has(id ?? '')) continue
      for (const { turn } of [...event.items, ...event.dropped]) turns.add(turn)
    }
  return turns
}

const NOTHING: ScoreCounts = { pending: 0, skipped: new Map() }

/**
 * One line (`learningText`). Reads the newest part of the topic `scores`, if the line depends on it; where a batch is sealed
 * and has no update, or the line has not started, asks the gateway what trainer and publisher do.
 */
export const readLearning = async (
  config: Config,
  history: VersionHistory,
  now: number,
  stop?: AbortSignal,
): Promise<string> => {
  const { weights, batches } = history
  const own = batches.filter((batch) => batch.policy === POLICY)
  const last = own.at(-1)
  const settings = last?.settings ?? {}
  const trainer = learningSettings(config).trainer
  const computes = weights.started !== null && last?.status === 'sealed'
  const waits =
    weights.started !== null &&
    !weights.frozen &&
    last?.status !== 'sealed' &&
    !(last?.status === 'computed' && !weights.verdicts.has(last.update?.id ?? ''))
  const { pending, skipped } = waits
    ? await pendingTurns(config, history, own, settings.staleness ?? trainer.staleness, stop)
    : NOTHING
  return learningText(
    {
      started: weights.started !== null,
      asking: weights.started === null ? await askingNow(config) : null,
      frozen: weights.frozen,
      batch: last
        ? {
            number: last.number,
            status: last.status,
            reason: last.reason,
            verdict: last.update !== null && weights.verdicts.has(last.update.id),
            at: last.at,
            turns: last.turns,
          }
        : null,
      batchWaits: computes ? await whyBatchWaits(config, { policy: POLICY, head: weights.head }) : null,
      turnMs: own
        .flatMap(({ turns, update }) => (update ? [(update.at - update.startedAt) / turns] : []))
        .slice(-MEASURED),
      pending,
      skipped,
      batchSize: settings.batchSize ?? trainer.batchSize,
      rejectionsInARow: weights.rejectionsInARow,
    },
    now,
  )
}
