/** Counts the scored turns that a batch can still use, from the newest part of `scores`. */
import { decodeReadable, foldScores, initialScores, type Logged, type ScoresEvent } from '@instar/events'
import type { EventLog } from '@instar/log'

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

/** A turn whose reward was withdrawn does not count. Stops reading at `most` turns. */
export const countPending = async (
  log: Pick<EventLog, 'read' | 'ends'>,
  { policy, versions, since, spent, most = MOST_PENDING }: PendingQuery,
): Promise<number> => {
  const scores = initialScores()
  const to = await log.ends(['scores'])
  const from = { time: Math.max(0, since - CLOCK_SKEW_MS) }
  for await (const records of log.read('scores', { from, to })) {
    for (const record of records) {
      const logged = decodeReadable(record) as Logged<ScoresEvent> | null
      if (!logged) continue
      const { event } = logged
      if (event.policy !== policy || !versions.has(event.version) || spent.has(event.turn)) continue
      foldScores(scores, logged)
    }
    if (scores.turns.size >= most) break
  }
  return [...scores.turns.values()].filter(({ reward }) => reward !== null).length
}
