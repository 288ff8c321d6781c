/** Counts scored turns that are in no batch yet. Starts to follow the log at the first read. */
import {
  foldUpdates,
  initialUpdates,
  InstarError,
  sessionOfTurn,
  updateLine,
  type Logged,
  type ScoresEvent,
  type UpdatesEvent,
} from '@instar/events'
import { followEvents, type EventLog, type Follower } from '@instar/log'
import { setTimeout as delay } from 'node:timers/promises'

export type PendingTurns = {
  /** Scored turns that are in no batch, by session. */
  waiting: ReadonlyMap<string, number>
  /** Turns of the last batch; 0 before the first. */
  batch: number
  /** True if a turn of the session was in a batch. */
  spent: (session: string) => boolean
}

/** Turns and sessions that are remembered, each; beyond it the oldest are forgotten. */
const MOST_REMEMBERED = 200_000

export type PendingTurnsReader = {
  /**
   * Counts at the end of the log. Throws `log_unavailable` if that is not reached in time, and the follower's error.
   */
  read(): Promise<PendingTurns>
  stop(): Promise<void>
}

/** `withinMs`: how long a read waits for the end of the log. */
export const createPendingTurnsReader = (
  log: EventLog,
  policy: string,
  withinMs: number,
  most: number = MOST_REMEMBERED,
): PendingTurnsReader => {
  const updates = initialUpdates()
  const scored = new Set<string>()
  const spentSessions = new Set<string>()
  let follower: Promise<Follower> | null = null
  let fault: Error | null = null

  const addBounded = (set: Set<string>, value: string): void => {
    set.add(value)
    if (set.size > most) set.delete(set.values().next().value!)
  }
  const take = (logged: Logged): void => {
    const event = logged.event as ScoresEvent | UpdatesEvent
    if (event.policy !== policy) return
    if (event.type === 'TurnScored') addBounded(scored, event.turn)
    else if (event.type === 'BatchSealed' && foldUpdates(updates, logged as Logged<UpdatesEvent>).counted) {
      for (const { turn } of event.items) addBounded(spentSessions, sessionOfTurn(turn))
      for (const { turn } of [...event.items, ...event.dropped]) scored.delete(turn)
    } else if (event.type === 'UpdateComputed' || event.type === 'UpdateFailed')
      foldUpdates(updates, logged as Logged<UpdatesEvent>)
  }

  const follow = async (): Promise<Follower> => {
    const following = await followEvents(log, {
      name: `gateway.${policy}.waterline`,
      topics: ['scores', 'updates'],
      onEvent: take,
    })
    following.done.catch((error: unknown) => {
      fault = error instanceof Error ? error : new Error(String(error))
    })
    return following
  }

  return {
    async read() {
      follower ??= follow().catch((error: unknown) => {
        follower = null
        throw error
      })
      await inTime(
        follower.then((following) => Promise.race([following.caughtUp(), following.done])),
        withinMs,
      )
      if (fault !== null) throw fault
      const line = updateLine(updates, policy)
      const waiting = new Map<string, number>()
      for (const turn of scored) {
        if (line.spent.has(turn)) scored.delete(turn)
        else waiting.set(sessionOfTurn(turn), (waiting.get(sessionOfTurn(turn)) ?? 0) + 1)
      }
      return {
        waiting,
        batch: line.byId.get(line.last)?.sealed.items.length ?? 0,
        spent: (session) => spentSessions.has(session),
      }
    },
    async stop() {
      await (await follower)?.stop()
    },
  }
}

/** Throws `log_unavailable` if `reading` takes longer. */
const inTime = async (reading: Promise<unknown>, ms: number): Promise<void> => {
  const stop = new AbortController()
  const late = delay(ms, undefined, { signal: stop.signal }).then(() => {
    throw new InstarError('log_unavailable', `The end of the log was not read within ${ms / 1000} s.`)
  })
  try {
    await Promise.race([reading, late])
  } finally {
    stop.abort()
    late.catch(() => undefined)
  }
}
