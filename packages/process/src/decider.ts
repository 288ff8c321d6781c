/**
 * The runtime of a service that folds topics, decides and acts. Trainer, publisher and scorer are each a core, an `act`
 * and their entry in the flow table (packages/events/src/flow.ts).
 *
 * - The state is the fold of `topics`, continued from a snapshot or read from the start of the log. Nothing is decided
 *   before the log was read to its end.
 * - `decide` is called after each record, each act, each background work and each change of the partition assignment, until
 *   it returns `wait`. One act runs at a time.
 * - At most one record that `act` returned is unread: the next decision waits until it is read back in log order.
 * - A fault of `act` that passes (`retryable`) is tried again without end; any other InstarError goes to `giveUp`, and
 *   so does an unknown fault after TRIES acts. What `giveUp` throws, and every other fault, goes to `onFatal`.
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
  persist,
  versionsOn,
  type EventLog,
  type Follower,
  type PartitionAssignment,
  type Snapshot,
  type SnapshotStore,
} from '@instar/log'

/** `againMs`: decide again after so long, though no record was read. */
export type Wait = { do: 'wait'; why: string; againMs?: number }

type DecideContext = {
  now: number
  /** Is the work on this partition of the `assignment` topic this process's? For a time two processes may hold one. */
  assigned(partition: number): boolean
}

type Core<State, Decision extends { do: string }> = {
  initialState(): State
  /** Null: a record that this service does not fold. */
  evolve(state: State, logged: Logged): FoldOutcome | null
  decide(state: State, context: DecideContext): Decision | Wait
}

/** What `decide` asks for: every decision but `wait`. */
export type Act<Decision extends { do: string }> = Exclude<Decision, { do: 'wait' }>

type ActContext<State> = {
  state: State
  /** Aborted by `stop`. */
  signal: AbortSignal
}

/** `code`: the InstarError's; `crashed` for an unknown error. */
export type Fault = { code: string; error: Error }

/** What every service of this kind is given. */
export type DeciderPorts = {
  log: EventLog
  /** Where the state is kept between two runs; without it the log is read from its start each time. */
  snapshots?: SnapshotStore | undefined
  now: () => number
  /** Called with a fault that ends the service: the caller stops the process. */
  onFatal: (error: Error) => void
}

export type DeciderOptions<State, Decision extends { do: string }> = {
  ports: DeciderPorts
  /** As the flow table names it. */
  service: string
  policy: string
  core: Core<State, Decision>
  /** Followed from the start or the snapshot. Throws `internal` for a topic that the service does not read by the flow table. */
  topics: readonly Topic[]
  /** Several processes of this service divide their work by the partitions of this topic. */
  assignment: Topic
  /** `version` changes with the code of which the stored state is a function. */
  snapshot: { version(): string; state(snapshot: Snapshot): State }
  /** The record to append, or null. */
  act(decision: Act<Decision>, context: ActContext<State>): Promise<Event | null>
  /** The record that says that `decision` was given up, or null. Absent: the fault is fatal. */
  giveUp?(decision: Act<Decision>, fault: Fault, state: State): Event | null
  /** The log was read to its end; nothing was decided yet. What it throws rejects `start`. */
  onReady?(state: State): void
  /** A record was folded after `onReady`. */
  onRead?(logged: Logged, outcome: FoldOutcome | null): void
  /** A record of `act` or `giveUp` is durable. */
  onAppended?(event: Event): void
  /** Partitions were assigned or revoked; `decide` is called next. */
  onAssigned?(): void
  flow?: TopicAccess
}

export type Decider<State> = {
  readonly state: State
  readonly signal: AbortSignal
  start(): Promise<void>
  /** Resolves when nothing runs and the last snapshot is written. */
  stop(): Promise<void>
  /** Decide again: something changed that is not a record. */
  wake(): void
  /** What the last decision does, or why it waits; `starting` before the first. */
  waits(): string
  /** The code of the fault after which the last act is tried again; null otherwise. */
  retrying(): string | null
  /** With the log read to its end as of the call: no act runs, and no record of this process is unread. */
  settled(): Promise<boolean>
  assigned(partition: number): boolean
  /** Resolves when the record is durable. For services whose core knows which of its records are unread. */
  append(event: Event): Promise<void>
  /** Runs beside the decisions; `stop` waits for it, and its fault is fatal. */
  background(work: Promise<void>): void
  backgroundCount(): number
}

/** An unknown fault is tried so often before the decision is given up. */
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
  const snapshot = ports.snapshots?.of(name, options.snapshot.version())
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
  let again: NodeJS.Timeout | undefined

  const assigned = (partition: number): boolean => assignment?.owns(partition) ?? false

  const onFault = (error: unknown): void => {
    if (!signal.aborted) ports.onFatal(error as Error)
  }

  const encode = (event: Event): ReturnType<typeof encodeEvent> => {
    const record = encodeEvent(event, versionsOn(log))
    requireTopic(flow, record.topic, 'writers', service)
    return record
  }

  const endTries = (): void => {
    tries = 0
    backoff.reset()
  }

  /** The record of one act; null where it is to be tried again, or made none. */
  const attempt = async (decision: Act<Decision>): Promise<Event | null> => {
    try {
      const event = await options.act(decision, { state, signal })
      endTries()
      return event
    } catch (error) {
      signal.throwIfAborted()
      tries += 1
      const known = error instanceof InstarError && error.code !== 'internal'
      if (known ? error.retryable : tries < TRIES) {
        retrying = known ? error.code : 'internal'
        await backoff.wait(signal)
        return null
      }
      endTries()
      if (!options.giveUp) throw error
      return options.giveUp(decision, { code: known ? error.code : 'crashed', error: error as Error }, state)
    }
  }

  const decideAndAct = async (): Promise<void> => {
    clearTimeout(again)
    while (ready && !signal.aborted && unread === null) {
      const decision = core.decide(state, { now: ports.now(), assigned })
      retrying = null
      waits = isWait(decision) ? decision.why : decision.do
      if (isWait(decision)) {
        if (decision.againMs !== undefined) again = setTimeout(wake, decision.againMs)
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

  const { wake, idle } = createPump(decideAndAct, onFault)

  const onAssigned = (): void => {
    options.onAssigned?.()
    wake()
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
      const tracked: Promise<void> = work.catch(onFault).finally(() => {
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
      signal.throwIfAborted()
      follower = await followEvents(log, {
        name,
        ...(from ? { from } : {}),
        topics,
        onEvent(logged) {
          const outcome = core.evolve(state, logged)
          if (logged.id === unread) unread = null
          if (ready) options.onRead?.(logged, outcome)
          wake()
          return snapshot?.after(logged)
        },
      })
      follower.done.catch((error: unknown) => ports.onFatal(error as Error))
      if (signal.aborted) await follower.stop()
      await follower.caughtUp()
      signal.throwIfAborted()
      options.onReady?.(state)
      ready = true
      assignment = await log.joinGroup(name, options.assignment, onAssigned)
      onAssigned()
    },
    async stop() {
      stopping.abort()
      clearTimeout(again)
      await Promise.all([assignment?.leave(), follower?.stop()])
      await idle()
      await Promise.allSettled(background)
      await snapshot?.close()
    },
  }
}

const isWait = (decision: { do: string } | Wait): decision is Wait => decision.do === 'wait'
