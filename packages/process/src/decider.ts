/**
 * The runtime of a service that folds topics, decides and acts. Scorer, trainer and publisher each consist of a core,
 * an `act` and an entry in the flow table (packages/events/src/flow.ts).
 *
 * - The state is the fold of `topics`, from a snapshot or from the start of the log. The first decision is made after
 *   the log has been read to its end.
 * - With `divided`, of the `assignment` topic only the partitions that are assigned to this process are folded, where several
 *   processes can share a log: each from where this process, its snapshot or a checkpoint had read it. A partition that none of
 *   these had read is read before the process joins the group.
 * - `decide` is called after each record, act, background task and change of the partition assignment, until it returns
 *   `wait`. One act runs at a time.
 * - The next decision is made after the record of the last act has been read back in log order.
 * - An act that fails with a retryable InstarError is repeated without limit. Any other InstarError is passed to
 *   `giveUp`, as is an unknown error after TRIES attempts. Errors of `giveUp`, `snapshot_damaged`, and all other errors, are
 *   passed to `onFatal`.
 */
import { encodeEvent, FLOW, InstarError, requireTopic, type Event, type Logged, type Topic } from '@instar/events'
import {
  Backoff,
  createPump,
  followEvents,
  isCutAway,
  LONGEST_TIMER_MS,
  partitionOf,
  persist,
  versionsOn,
  type Follower,
  type KnownOffsets,
  type Offsets,
  type PartitionAssignment,
} from '@instar/log'
import type { Act, Decider, DeciderOptions, Wait } from './decider-types.ts'
import { openState } from './open-state.ts'
import { ownPartitions, type OwnPartitions } from './own-partitions.ts'
import { SERVICE } from './metrics/labels.ts'
import { offsetsOver, watchLag } from './metrics/lag.ts'
import { reportPositions } from './metrics/report-positions.ts'

export type { Act, Decider, DeciderOptions, DeciderPorts, Fault, Wait } from './decider-types.ts'

/** Milliseconds. Nobody waits for a score; a batch waits for turns for seconds, and takes seconds. */
const GATHER_MS = 250

/** Attempts of an act that fails with unknown errors. */
const TRIES = 3
const RETRY_MS = 250
const LONGEST_RETRY_MS = 10_000

export const runDecider = <State, Decision extends { do: string }>(
  options: DeciderOptions<State, Decision>,
): Decider<State> => {
  const { ports, service, core, topics, flow = FLOW } = options
  const { log } = ports
  for (const topic of topics) requireTopic(flow, topic, 'readers', service)
  const name = `${service}.${options.policy}`
  const snapshot = ports.snapshots?.of(name, options.snapshot.version)
  const state = snapshot ? options.snapshot.state(snapshot) : core.initialState()
  const stopping = new AbortController()
  const { signal } = stopping
  const background = new Set<Promise<void>>()
  let follower: Follower | null = null
  let assignment: PartitionAssignment | null = null
  /** Null: the records of all partitions are folded. */
  let own: OwnPartitions | null = null
  /** The group has said what is assigned to this process. */
  let agreed = false
  let ready = false
  let unread: string | null = null
  const backoff = new Backoff({ firstMs: RETRY_MS, longestMs: LONGEST_RETRY_MS, growth: 'linear' })
  let tries = 0
  let retrying: string | null = null
  let waits = 'starting'
  let decideTimer: NodeJS.Timeout | undefined

  let begun: Offsets | null = null
  /** Without those that the state has left. */
  let followed = topics
  const left = (): Topic[] => topics.filter((topic) => !followed.includes(topic))
  const watched = SERVICE.find((one) => one === service)
  const positions = (): Offsets | null => (begun && follower ? offsetsOver(begun, follower.positions()) : null)
  const reads = (topic: Topic, partition: number): boolean =>
    followed.includes(topic) && (topic !== options.assignment || own === null || own.reads(partition))
  if (ports.metrics && watched)
    watchLag(ports.metrics, log, { service: watched, topics, read: positions, reads, now: ports.now })
  const known: KnownOffsets = () => positions()?.[options.assignment] ?? {}
  let reporting: { stop(): void } | null = null

  const assigned = (partition: number): boolean =>
    (assignment?.owns(partition) ?? false) && (own === null || own.has(partition))

  const onError = (error: unknown): void => {
    if (!signal.aborted) ports.onFatal(error as Error)
  }

  /** The log cannot be followed. */
  const onUnread = (error: unknown): void => {
    if (ready && ports.onCut && isCutAway(error)) ports.onCut(error as Error)
    else ports.onFatal(error as Error)
  }

  const encode = (event: Event): ReturnType<typeof encodeEvent> => {
    const record = encodeEvent(event, versionsOn(log))
    requireTopic(flow, record.topic, 'writers', service)
    return record
  }

  const resetTries = (): void => {
    tries = 0
    backoff.reset()
  }

  /** The record of an act; null if the act returned none or has to be repeated. */
  const attempt = async (decision: Act<Decision>): Promise<Event | null> => {
    try {
      const event = await options.act(decision, { state, signal })
      resetTries()
      return event
    } catch (error) {
      signal.throwIfAborted()
      // It stays damaged: the next process reads the log from its start.
      if (error instanceof InstarError && error.code === 'snapshot_damaged') throw error
      tries += 1
      const known = error instanceof InstarError && error.code !== 'internal'
      if (known ? error.retryable : tries < TRIES) {
        retrying = known ? error.code : 'internal'
        await backoff.wait(signal)
        return null
      }
      resetTries()
      if (!options.giveUp) throw error
      return options.giveUp(decision, { code: known ? error.code : 'crashed', error: error as Error }, state)
    }
  }

  const decideAndAct = async (): Promise<void> => {
    clearTimeout(decideTimer)
    while (ready && !signal.aborted && unread === null) {
      const decision = core.decide(state, { now: ports.now(), assigned })
      retrying = null
      waits = isWait(decision) ? decision.why : decision.do
      if (isWait(decision)) {
        if (decision.againMs !== undefined) decideTimer = setTimeout(wake, Math.min(decision.againMs, LONGEST_TIMER_MS))
        return
      }
      const event = await attempt(decision as Act<Decision>)
      if (!event) continue
      const record = encode(event)
      unread = record.id
      await persist(log, [record], signal)
      options.onAppended?.(event)
    }
  }

  const { wake, idle } = createPump(decideAndAct, onError)

  /** False for a session of a partition that is not read, whose turns no record changes. */
  const mayHold = (session: string): boolean => {
    if (own === null || options.assignment !== 'turns') return true
    return own.reads(partitionOf(session, log.partitions('turns')))
  }

  const lookAgain = (): void => {
    options.onAssigned?.()
    wake()
  }

  const onAssigned = (): void => {
    own?.update(assignment)
    lookAgain()
  }

  const read = (logged: Logged): Promise<void> | undefined => {
    const outcome = core.evolve(state, logged)
    if (logged.id === unread) unread = null
    // What is read to catch up is no news, as what is read at the start.
    if (own === null || logged.topic !== options.assignment || own.has(logged.partition)) {
      if (ready) options.onRead?.(logged, outcome)
      wake()
    }
    return snapshot?.after(logged)
  }

  const follow = async (divided: boolean): Promise<Follower> => {
    const gather = options.gather?.filter((topic) => followed.includes(topic)) ?? []
    const following = await followEvents(log, {
      name,
      ...(Object.keys(begun ?? {}).length > 0 ? { from: begun! } : {}),
      ...(gather.length > 0 ? { gather: { topics: gather, ms: GATHER_MS } } : {}),
      topics: followed,
      ...(divided ? { byPartition: options.assignment } : {}),
      onEvent(logged) {
        const { event } = logged
        const loading =
          snapshot && 'session' in event && mayHold(event.session) ? snapshot.load(event.session) : undefined
        return loading ? loading.then(() => read(logged)) : read(logged)
      },
    })
    following.done.catch(onUnread)
    if (signal.aborted) await following.stop()
    return following
  }

  /** Leaves topics that the state needs no more; it is asked again when no record is read meanwhile. */
  const leave = async (divided: boolean): Promise<void> => {
    if (!follower || (options.leaves?.(state) ?? []).length === 0) return
    await follower.stop()
    const leaving = options.leaves?.(state) ?? []
    followed = followed.filter((topic) => !leaving.includes(topic))
    begun = Object.fromEntries(Object.entries(positions() ?? {}).filter(([topic]) => followed.includes(topic as Topic)))
    for (const topic of leaving) snapshot?.leave(topic)
    options.opened?.(state, left())
    follower = await follow(divided)
    await follower.caughtUp()
    signal.throwIfAborted()
  }

  return {
    state,
    signal,
    wake,
    assigned,
    waits: () => waits,
    retrying: () => retrying,
    backgroundCount: () => background.size,
    catchingUp: () => own?.catchingUp() ?? 0,
    append: async (event) => persist(log, [encode(event)], signal),
    background(work) {
      const tracked: Promise<void> = work.catch(onError).finally(() => {
        background.delete(tracked)
        wake()
      })
      background.add(tracked)
    },
    caughtUp: () => follower?.caughtUp() ?? Promise.resolve(),
    async settled() {
      await follower?.caughtUp()
      await own?.caughtUp()
      await idle()
      return ready && unread === null && (own === null || (agreed && own.catchingUp() === 0))
    },
    async start() {
      const onOpened = (left: readonly Topic[]): string | null => options.opened?.(state, left) ?? null
      const say = (line: string): void => ports.snapshots?.logLine?.(`${name}: ${line}`)
      const opened = await openState(log, snapshot, topics, onOpened, say)
      begun = opened.from
      followed = opened.followed
      signal.throwIfAborted()
      const divided = options.divided === true && log.sole !== true
      follower = await follow(divided)
      await follower.caughtUp()
      signal.throwIfAborted()
      await leave(divided)
      if (divided) {
        const count = log.partitions(options.assignment)
        own = ownPartitions({
          topic: options.assignment,
          count,
          follower,
          positions: () => positions() ?? {},
          onCaughtUp: () => (ready ? lookAgain() : undefined),
          onError: onUnread,
        })
        // A process that knows nothing of a partition is given none while it reads, so that others work on it meanwhile.
        const all = Array.from({ length: count }, (_, partition) => partition)
        await own.prepare(all.filter((partition) => known()[partition] === undefined))
        signal.throwIfAborted()
      }
      options.onReady?.(state)
      ready = true
      const onChange = (): void => {
        agreed = true
        onAssigned()
      }
      assignment = await log.joinGroup(name, options.assignment, onChange, divided ? known : undefined)
      reporting = reportPositions(log, { group: name, read: positions, left, shared: options.assignment, assigned })
      onAssigned()
    },
    async stop() {
      stopping.abort()
      own?.stop()
      clearTimeout(decideTimer)
      reporting?.stop()
      await Promise.all([assignment?.leave(), follower?.stop()])
      await idle()
      await Promise.allSettled(background)
      await snapshot?.close()
    },
  }
}

const isWait = (decision: { do: string } | Wait): decision is Wait => decision.do === 'wait'
