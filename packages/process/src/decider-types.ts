/** What a service gives to `runDecider`, and gets from it. */
import type { Event, FoldOutcome, Logged, Topic, TopicAccess } from '@instar/events'
import type { EventLog, Snapshot, SnapshotStore, StateVersion } from '@instar/log'
import type { Metrics } from './metrics/metrics.ts'

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
  /**
   * Called instead of `onFatal`, once or more, where the log was cut of what this process has still to read. The caller must stop it, and
   * may start another one: that starts from a checkpoint. Not called before `start` has resolved.
   */
  onCut?: (error: Error) => void
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
  /** The state is divided as well: a partition that is assigned to another process is not folded. Default: it is. */
  divided?: boolean
  /** `version` must change with the state and the code that computes it. */
  snapshot: { version: StateVersion; state(snapshot: Snapshot): State }
  /** Called when the stored state is there. `left`: topics that it folds no more. Returns why it must start over; null: it goes on. */
  opened?(state: State, left: readonly Topic[]): string | null
  /**
   * Topics that the state folds no more from here on, where it has read the log to its end; the snapshot remembers them. Called
   * before `onReady`. Default: none.
   */
  leaves?(state: State): readonly Topic[]
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
  /** Resolves when all records of `topics` that were on the log at the call have been folded; an act may wait for it. */
  caughtUp(): Promise<void>
  /** Whether the partition is assigned to this process, and its records are folded. */
  assigned(partition: number): boolean
  /** Partitions that are assigned to this process whose earlier records are still being folded. */
  catchingUp(): number
  /** Resolves when the record is durable. The caller must keep track of records that have not been read back. */
  append(event: Event): Promise<void>
  /** Adds a task that runs concurrently with decisions. `stop` waits for it; its errors are fatal. */
  background(work: Promise<void>): void
  backgroundCount(): number
}
