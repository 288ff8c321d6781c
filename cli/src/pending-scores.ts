/** Counts the turns that a batch can still use, and those that have no score, from the newest part of `scores`. */
import { decodeReadable, foldScores, initialScores, type Logged, type ScoresEvent } from '@instar/events'
import { readHeld, type EventLog } from '@instar/log'

/** Turns that are held and counted. Beyond it the number is "at least". */
export const MOST_PENDING = 100_000
/** Milliseconds that the clocks of two writers of the log may differ. */
const CLOCK_SKEW_MS = 60_000

type PendingQuery = {
  policy: string
  /** The versions whose turns a batch may use. */
  versions: ReadonlySet<number>
  /** When the oldest of them was published: no turn of theirs was scored before. */
  since: number
  /** Turns of earlier batches. */
  spent: ReadonlySet<string>
  most?: number
}

/** `pending`: turns with a reward. `skipped`: turns without one, by the reason of their last record. */
export type ScoreCounts = { pending: number; skipped: ReadonlyMap<string, number> }

/** A turn whose reward was withdrawn is skipped. Stops reading at `most` turns. */
export const countPending = async (
  log: Pick<EventLog, 'read' | 'ends' | 'starts'>,
  { policy, versions, since, spent, most = MOST_PENDING }: PendingQuery,
): Promise<ScoreCounts> => {
  const scores = initialScores()
  const reasons = new Map<string, string>()
  const to = await log.ends(['scores'])
  const from = { time: Math.max(0, since - CLOCK_SKEW_MS) }
  // What was cut is not pending.
  for await (const records of readHeld(log, 'scores', { from, to })) {
    for (const record of records) {
      const logged = decodeReadable(record) as Logged<ScoresEvent> | null
      if (!logged) continue
      const { event } = logged
      if (event.policy !== policy || !versions.has(event.version) || spent.has(event.turn)) continue
      foldScores(scores, logged)
      if (event.type === 'TurnSkipped') reasons.set(event.turn, event.reason)
    }
    if (scores.turns.size >= most) break
  }
  let pending = 0
  const skipped = new Map<string, number>()
  for (const [turn, { reward }] of scores.turns) {
    if (reward !== null) pending += 1
    else {
      const reason = reasons.get(turn) ?? 'unknown'
      skipped.set(reason, (skipped.get(reason) ?? 0) + 1)
    }
  }
  return { pending, skipped }
}
