/**
 * Follows `turns` and `weights` independently, from the start or from the snapshot's positions, and folds them into the
 * gateway's state.
 */
import { decodeReadable, foldWeights, type Logged, type TurnsEvent, type WeightsEvent } from '@instar/events'
import { followEvents, isTurnRecord, type EventLog, type Follower, type Offsets, type TurnReader } from '@instar/log'
import { offsetsOver } from '@instar/process'
import { evolveIndex, restore } from './core/session-index.ts'
import type { GatewaySnapshot } from './snapshot.ts'

type TailPorts = {
  log: EventLog
  name: string
  snapshot: GatewaySnapshot
  /** Records of `turns` may be read so many ms late where nobody waits for them. Default: 0. */
  gatherMs?: number
  /** Records of `weights` that did not count, by reason. */
  ignored: Map<string, number>
  onWeights: () => void
  /** Keeps the records of turns that counted. */
  reader?: Pick<TurnReader, 'keepRecent'>
  /** Following has ended permanently, so the state becomes stale and the process must end. */
  onBroken: (error: Error) => void
}

/** The longest that pages and lists wait for turns that were not read yet, ms. */
export const SHOWN_WITHIN_MS = 2_000

export type Tail = {
  /** Resolves when everything that was on both topics at the call has been folded. */
  caughtUp(): Promise<void>
  /** Resolves true if everything that was on `turns` at the call was folded within `ms`. */
  turnsWithin(ms: number): Promise<boolean>
  weightsCaughtUp(): Promise<void>
  /**
   * Makes a session available without holding the event loop: an evicted one is read from the log again, a long one from
   * the snapshot. To be awaited before a session is looked up. Undefined if there is nothing to wait for.
   */
  ready(session: string): Promise<void> | undefined
  /** Why following ended; null while it continues. */
  stopped(): { topic: 'turns' | 'weights'; error: Error } | null
  /** The next offset to read of each partition. */
  positions(): Offsets
  /** Number of unreadable records of `turns`. */
  bad(): number
  stop(): Promise<void>
}

export const startTail = async (ports: TailPorts): Promise<Tail> => {
  const { log, name, snapshot } = ports
  const { index } = snapshot
  const restoring = new Map<string, { later: Logged<TurnsEvent>[]; done: Promise<void> }>()
  let ended: { topic: 'turns' | 'weights'; error: Error } | null = null
  let bad = 0

  const fold = (record: Logged<TurnsEvent>): Promise<void> | undefined => {
    evolveIndex(index, record)
    if (isTurnRecord(record.event) && index.fold.turns.get(record.event.turn)?.offset === record.offset)
      ports.reader?.keepRecent(record.event)
    restoring.get(record.key)?.later.push(record)
    return snapshot.after(record)
  }

  const from = await snapshot.open(log)
  const turns = await followEvents(log, {
    name: `gateway.${name}.turns`,
    topics: ['turns'],
    from: from.turns,
    // `upgrades`, which every follower reads, too: so that a request which waits is not behind a fetch of it.
    gather: { topics: ['turns', 'upgrades'], ms: ports.gatherMs ?? 0 },
    onEvent(logged) {
      const record = logged as Logged<TurnsEvent>
      const loading = snapshot.load(record.key)
      return loading ? loading.then(() => fold(record)) : fold(record)
    },
    onBad: () => {
      bad += 1
    },
  })
  const versions = await followEvents(log, {
    name: `gateway.${name}.weights`,
    topics: ['weights'],
    from: from.weights,
    onEvent(logged) {
      const outcome = foldWeights(snapshot.weights, logged as Logged<WeightsEvent>)
      if (!outcome.counted) ports.ignored.set(outcome.why, (ports.ignored.get(outcome.why) ?? 0) + 1)
      ports.onWeights()
      return snapshot.after(logged)
    },
  })
  const followers: ['turns' | 'weights', Follower][] = [
    ['turns', turns],
    ['weights', versions],
  ]
  for (const [topic, follower] of followers) {
    follower.done.catch((cause: unknown) => {
      const error = cause instanceof Error ? cause : new Error(String(cause))
      ended ??= { topic, error }
      ports.onBroken(error)
    })
  }

  const readAgain = async (session: string, later: Logged<TurnsEvent>[]): Promise<void> => {
    const place = index.forgotten.get(session)
    if (!place) return
    const records: Logged<TurnsEvent>[] = []
    for await (const batch of log.read('turns', {
      key: session,
      from: { turns: { [place.partition]: place.offset } },
    })) {
      for (const record of batch) {
        const logged = decodeReadable(record)
        if (logged) records.push(logged as Logged<TurnsEvent>)
      }
    }
    restore(index, session, [...records, ...later])
  }

  return {
    caughtUp: async () => {
      await Promise.all(followers.map(([, follower]) => follower.caughtUp()))
    },
    turnsWithin: (ms) =>
      new Promise((resolve) => {
        const late = setTimeout(resolve, ms, false)
        const settle = (isRead: boolean): void => {
          clearTimeout(late)
          resolve(isRead)
        }
        turns.caughtUp().then(
          () => settle(true),
          () => settle(false),
        )
      }),
    weightsCaughtUp: () => versions.caughtUp(),
    ready(session) {
      if (!index.forgotten.has(session)) return snapshot.load(session)
      const running = restoring.get(session)
      if (running) return running.done
      const later: Logged<TurnsEvent>[] = []
      const done = readAgain(session, later).finally(() => restoring.delete(session))
      restoring.set(session, { later, done })
      return done
    },
    stopped: () => ended,
    positions: () => offsetsOver({ ...from.turns, ...from.weights }, { ...turns.positions(), ...versions.positions() }),
    bad: () => bad,
    async stop() {
      await Promise.all(followers.map(([, follower]) => follower.stop()))
      await snapshot.close()
    },
  }
}
