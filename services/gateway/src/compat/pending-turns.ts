/** Counts scored turns that are in no batch yet. Starts to follow the log at the first read. */
import {
  emptyChain,
  InstarError,
  link,
  sessionOfTurn,
  type Logged,
  type ScoresEvent,
  type UpdatesEvent,
} from '@instar/events'
import { followEvents, type EventLog, type Follower } from '@instar/log'
import { setTimeout as delay } from 'node:timers/promises'

export type PendingTurns = {
  /** Scored turns that are in no batch. */
  waiting: number
  /** Turns of the last batch; 0 before the first. */
  batch: number
  /** True if a turn of the session was in a batch. */
  spent: (session: string) => boolean
}

/** Scored turns, turns of batches and sessions that are remembered, each; beyond it the oldest are forgotten. */
const MOST_REMEMBERED = 200_000

export type PendingTurnsReader = {
  /**
   * Counts at the end of the log. Throws `log_unavailable` if that is not reached in time, and the follower's error.
   */
  read(): Promise<PendingTurns>
  stop(): Promise<void>
}

/**
 * `withinMs`: how long a read waits for the end of the log. After an error of the follower the next read follows the log
 * from its start.
 */
export const createPendingTurnsReader = (
  log: EventLog,
  policy: string,
  withinMs: number,
  most: number = MOST_REMEMBERED,
): PendingTurnsReader => {
  let current: { counts: Counts; follower: Promise<Follower> } | null = null

  const follow = (): NonNullable<typeof current> => {
    const counts = new Counts(policy, most)
    const follower = followEvents(log, {
      name: `gateway.${policy}.waterline`,
      topics: ['scores', 'updates'],
      onEvent: (logged) => counts.take(logged),
    })
    const following = { counts, follower }
    const ended = (): void => {
      if (current === following) current = null
    }
    follower.then(({ done }) => done.catch(ended), ended)
    return following
  }

  return {
    async read() {
      const { counts, follower } = (current ??= follow())
      await inTime(
        follower.then((following) => Promise.race([following.caughtUp(), following.done])),
        withinMs,
      )
      return counts.now()
    },
    async stop() {
      await (await current?.follower)?.stop()
    },
  }
}

/** Keeps the counts while it reads: a client may ask every second, and the fold of all batches would grow with the log. */
class Counts {
  private readonly policy: string
  private readonly most: number
  private readonly chain = emptyChain()
  private readonly scored = new Set<string>()
  /** Turns of batches: their scores may be read after the batch. */
  private readonly spent = new Set<string>()
  private readonly spentSessions = new Set<string>()
  private batch = 0

  constructor(policy: string, most: number) {
    this.policy = policy
    this.most = most
  }

  take(logged: Logged): void {
    const event = logged.event as ScoresEvent | UpdatesEvent
    if (event.policy !== this.policy) return
    if ('prev' in event) this.takeUpdate(logged as Logged<UpdatesEvent>)
    else if (event.type === 'TurnScored' && !this.spent.has(event.turn)) this.add(this.scored, event.turn)
  }

  private takeUpdate(logged: Logged<UpdatesEvent>): void {
    const { event } = logged
    if (!link(this.chain, logged).counted || event.type !== 'BatchSealed') return
    this.batch = event.items.length
    for (const { turn } of event.items) this.add(this.spentSessions, sessionOfTurn(turn))
    for (const { turn } of [...event.items, ...event.dropped]) {
      this.scored.delete(turn)
      this.add(this.spent, turn)
    }
  }

  now(): PendingTurns {
    return {
      waiting: this.scored.size,
      batch: this.batch,
      spent: (session) => this.spentSessions.has(session),
    }
  }

  private add(set: Set<string>, value: string): void {
    set.add(value)
    if (set.size > this.most) set.delete(set.values().next().value!)
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
