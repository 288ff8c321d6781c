/**
 * The runtime of a service that folds topics, decides and acts. Scorer, trainer and publisher each consist of a core,
 * an `act` and an entry in the flow table (packages/events/src/flow.ts).
 *
 * - The state is the fold of `topics`, from a snapshot or from the start of the log. The first decision is made after
 *   the log has been read to its end.
 * - `decide` is called after each record, act, background task and change of the partition assignment, until it returns
 *   `wait`. One act runs at a time.
 * - The next decision is made after the record of the last act has been read back in log order.
 * - An act that fails with a retryable InstarError is repeated without limit. Any other InstarError is passed to
 *   `giveUp`, as is an unknown error after TRIES attempts. Errors of `giveUp`, `snapshot_damaged`, and all other errors, are
 *   passed to `onFatal`.
 */
import {
  encodeEvent,
  FLOW,
  InstarError,
  requireTopic,
  type Event,
  type Logged,
  type FoldOutcome,
  type Topic,
  type TopicAccess,
} from '@instar/events'
import {
  Backoff,
  createPump,
  followEvents,
  LONGEST_TIMER_MS,
  persist,
  versionsOn,
  type EventLog,
  type Follower,
  type Offsets,
  type PartitionAssignment,
  type Snapshot,
  type SnapshotStore,
  type StateVersion,
} from '@instar/log'
import { SERVICE } from './metrics/labels.ts'
import { offsetsOver, watchLag } from './metrics/lag.ts'
import type { Metrics } from './metrics/metrics.ts'
import { reportPositions } from './metrics/report-positions.ts'

/** `why`: the reason, for `waits`. `againMs`: time after which to decide again even without a new record. */
export type Wait = { do: 'wait'; why: string; againMs?: number }

type DecideContext = {
  now: number
  /**
   * Whether this partition of the `assignment` topic is assigned to this process. During a rebalance it may be assigned
   * to two processes.
   */
  assigned(partition: number): boolean
}

type Core<State, Decision extends { do: string }> = {
  initialState(): State
  /** Folds a record into the state. Null: the service does not fold records of this type. */
  evolve(state: State, logged: Logged): FoldOutcome | null
  decide(state: State, context: DecideContext): Decision | Wait
}

/** A decision that requires an act: all except `wait`. */
export type Act<Decision extends { do: string }> = Exclude<Decision, { do: 'wait' }>

type ActContext<State> = {
  state: State
  /** Aborted by `stop`. */
  signal: AbortSignal
}

/** `code`: that of the InstarError; `crashed` for an unknown error. */
export type Fault = { code: string; error: Error }

export type DeciderPorts = {
  log: EventLog
  /** The store of the state between runs. Without it the log is read from its start at each start. */
  snapshots?: SnapshotStore | undefined
  /** Gets the lag of the service. */
  metrics?: Metrics
  now: () => number
  /** Called with a fatal error; the caller must stop the service. */
  onFatal: (error: Error) => void
}

export type DeciderOptions<State, Decision extends { do: string }> = {
  ports: DeciderPorts
  /** The name of the service in the flow table. */
  service: string
  policy: string
  core: Core<State, Decision>
  /**
   * The topics to fold. `runDecider` throws `internal` if the flow table does not list the service as a reader of one.
   */
  topics: readonly Topic[]
  /** Topics whose records may be read GATHER_MS late, several at once, which costs less. Default: none. */
  gather?: readonly Topic[]
  /** The topic by whose partitions several processes of the service share the work. */
  assignment: Topic
  /** `version` must change with the state and the code that computes it. */
  snapshot: { version: StateVersion; state(snapshot: Snapshot): State }
  /** Performs a decision. Returns the record to append, or null. */
  act(decision: Act<Decision>, context: ActContext<State>): Promise<Event | null>
  /** Returns a record that states that the decision has failed, or null. If absent, the error is fatal. */
  giveUp?(decision: Act<Decision>, fault: Fault, state: State): Event | null
  /** Called when the log has been read to its end, before the first decision. If it throws, `start` rejects. */
  onReady?(state: State): void
  /** Called after each record that is folded after `onReady`. */
  onRead?(logged: Logged, outcome: FoldOutcome | null): void
  /** Called when a record of `act` or `giveUp` is durable. */
  onAppended?(event: Event): void
  /** Called when partitions were assigned or revoked, before the next decision. */
  onAssigned?(): void
  flow?: TopicAccess
}

export type Decider<State> = {
  readonly state: State
  readonly signal: AbortSignal
  start(): Promise<void>
  /** Resolves when no work is running and the last snapshot is written. */
  stop(): Promise<void>
  /** Requests a decision after a change that is not a record. */
  wake(): void
  /** The name of the last decision, or the reason of a wait; `starting` before the first. */
  waits(): string
  /** The code of the error after which the last act is being repeated; null otherwise. */
  retrying(): string | null
  /**
   * Reads the log to its end as of the call and waits for running acts. False if the service is not ready, or if a
   * record of this process has not been read back.
   */
  settled(): Promise<boolean>
  assigned(partition: number): boolean
  /** Resolves when the record is durable. The caller must keep track of records that have not been read back. */
  append(event: Event): Promise<void>
  /** Adds a task that runs concurrently with decisions. `stop` waits for it; its errors are fatal. */
  background(work: Promise<void>): void
  backgroundCount(): number
}

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
  let ready = false
  let unread: string | null = null
  const backoff = new Backoff({ firstMs: RETRY_MS, longestMs: LONGEST_RETRY_MS, growth: 'linear' })
  let tries = 0
  let retrying: string | null = null
  let waits = 'starting'
  let decideTimer: NodeJS.Timeout | undefined

  let begun: Offsets | null = null
  const watched = SERVICE.find((one) => one === service)
  const positions = (): Offsets | null => (begun && follower ? offsetsOver(begun, follower.positions()) : null)
  if (ports.metrics && watched)
    watchLag(ports.metrics, log, { service: watched, topics, read: positions, now: ports.now })
  let reporting: { stop(): void } | null = null

  const assigned = (partition: number): boolean => assignment?.owns(partition) ?? false

  const onError = (error: unknown): void => {
    if (!signal.aborted) ports.onFatal(error as Error)
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

  const onAssigned = (): void => {
    options.onAssigned?.()
    wake()
  }

  const read = (logged: Logged): Promise<void> | undefined => {
    const outcome = core.evolve(state, logged)
    if (logged.id === unread) unread = null
    if (ready) options.onRead?.(logged, outcome)
    wake()
    return snapshot?.after(logged)
  }

  return {
    state,
    signal,
    wake,
    assigned,
    waits: () => waits,
    retrying: () => retrying,
    backgroundCount: () => background.size,
    append: async (event) => persist(log, [encode(event)], signal),
    background(work) {
      const tracked: Promise<void> = work.catch(onError).finally(() => {
        background.delete(tracked)
        wake()
      })
      background.add(tracked)
    },
    async settled() {
      await follower?.caughtUp()
      await idle()
      return ready && unread === null
    },
    async start() {
      const from = await snapshot?.open(log)
      begun = from ?? {}
      signal.throwIfAborted()
      follower = await followEvents(log, {
        name,
        ...(from ? { from } : {}),
        ...(options.gather ? { gather: { topics: options.gather, ms: GATHER_MS } } : {}),
        topics,
        onEvent(logged) {
          const loading = snapshot && 'session' in logged.event ? snapshot.load(logged.event.session) : undefined
          return loading ? loading.then(() => read(logged)) : read(logged)
        },
      })
      follower.done.catch((error: unknown) => ports.onFatal(error as Error))
      if (signal.aborted) await follower.stop()
      await follower.caughtUp()
      signal.throwIfAborted()
      options.onReady?.(state)
      ready = true
      assignment = await log.joinGroup(name, options.assignment, onAssigned)
      reporting = reportPositions(log, { group: name, read: positions, shared: options.assignment, assigned })
      onAssigned()
    },
    async stop() {
      stopping.abort()
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
