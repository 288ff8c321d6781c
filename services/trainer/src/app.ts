/** The trainer on its ports: follows four topics, seals, computes, appends. See core/decide.ts for the rules. */
import {
  encodeEvent,
  InstarError,
  requireBase,
  updateLine,
  weightLine,
  type BatchSealed,
  type Encoded,
  type Event,
  type UpdateComputed,
  type UpdateFailed,
} from '@instar/events'
import {
  createPump,
  createTurnReader,
  followEvents,
  partitionOf,
  persist,
  versionsOn,
  type EventLog,
  type Follower,
  type Share,
  type SnapshotStore,
} from '@instar/log'
import type { LearningEngine, Model } from '@instar/engine/port'
import { NO_METRICS, type Metrics } from '@instar/process'
import { setTimeout as delay } from 'node:timers/promises'
import type { TrainerConfig } from './config.ts'
import { RULES } from './core/baseline.ts'
import { waiting, type BatchSettings } from './core/batch.ts'
import { computed, decide, failed, type Decision } from './core/decide.ts'
import { countPending } from './core/pending.ts'
import { evolve, initialState, type TrainerState } from './core/state.ts'
import { compute } from './shell/compute.ts'
import { watchTrainer } from './shell/metrics.ts'
import { stateVersion, storedState } from './shell/stored-state.ts'

export * from './config.ts'
export { compute, loadAdapter, parentOf, stepSettings, trainItem, type ComputePorts } from './shell/compute.ts'
export { verify, type VerifyReport } from './shell/verify.ts'
export { replay, type Rescore, type ReplayPorts, type ReplayProgress, type ReplayReport } from './shell/replay.ts'
export type { Bound, ReplayOptions } from './core/replay.ts'
export { advantages, type Baselines } from './core/baseline.ts'
export { sealBatch, hasSignal, MOST_ITEMS, type BatchSettings } from './core/batch.ts'
export { countPending } from './core/pending.ts'
export { computed, decide, failed, type Computed, type Decision } from './core/decide.ts'
export { evolve, initialState, type TrainerState } from './core/state.ts'

export type TrainerPorts = {
  log: EventLog
  /** Where the fold is kept between two lives; without it everything is in memory, and read from the start. */
  snapshots?: SnapshotStore | undefined
  learner: LearningEngine
  model: Model
  now: () => number
  metrics?: Metrics
  /** A fault that ends the service: the caller stops the process. */
  onFatal: (error: Error) => void
  /** What the trainer is doing, for people who watch. */
  onProgress?: (what: {
    phase: 'sealed' | 'computed' | 'failed'
    number: number
    figures?: Record<string, number>
    reason?: string
  }) => void
}

export type Trainer = {
  start(): Promise<void>
  stop(): Promise<void>
  waits(): string
  /** With the log read to its end as of the call: is there nothing to do, and no record of ours unread? */
  settled(): Promise<boolean>
  state: TrainerState
}

/** A fault that nobody knows is tried again so often before the batch is given up, visibly. */
const TRIES = 3
const RETRY_MS = 250
const LONGEST_RETRY_MS = 10_000

export const createTrainer = (ports: TrainerPorts, config: TrainerConfig): Trainer => {
  const snapshot = ports.snapshots?.of(`trainer.${config.policy}`, stateVersion())
  const state = snapshot ? storedState(snapshot, config.policy) : initialState(config.policy)
  const reader = createTurnReader(ports.log, (turn) => state.turns.turns.get(turn))
  const { batchSize, staleness, groupWaitMs, keyShare, subjectShare, keyHeardMs, loss } = config
  const shares = { keyShare, subjectShare }
  const options: BatchSettings = {
    batchSize,
    staleness,
    groupWaitMs,
    keyHeardMs,
    ...shares,
    loss,
    settings: { ...config.step, batchSize, staleness, ...shares, rules: RULES },
  }
  const stopping = new AbortController()
  const partition = partitionOf(config.policy, ports.log.partitions('updates'))
  let follower: Follower | null = null
  let share: Share | null = null
  let ready = false
  let unread: string | null = null
  let tries = 0
  let again: NodeJS.Timeout | undefined
  let waits = 'starting'

  const mine = (): boolean => share?.mine(partition) ?? false
  const watched = watchTrainer(ports.metrics ?? NO_METRICS, () => ({
    policy: config.policy,
    waits,
    pending: countPending(state),
    held: waiting(state, options, ports.now()).held,
    shares: lastShares(state),
    figures: lastFigures(state),
  }))

  /** At most one unread append: the next decision waits until this one comes back in log order. */
  const append = async (event: Event): Promise<void> => {
    const record: Encoded & { id: string } = encodeEvent(event, versionsOn(ports.log))
    unread = record.id
    await persist(ports.log, [record], stopping.signal)
  }

  const act = async (decision: Decision): Promise<void> => {
    if (decision.do === 'append') {
      ports.onProgress?.({
        phase: decision.event.type === 'BatchSealed' ? 'sealed' : 'failed',
        number: decision.event.number,
        ...(decision.event.type === 'UpdateFailed' ? { reason: decision.event.reason } : {}),
      })
      return append(decision.event)
    }
    if (decision.do !== 'compute') return
    const event = await outcomeOf(decision.batch, decision.sealed)
    if (!event) return
    await append(event)
    if (event.type === 'UpdateComputed')
      ports.onProgress?.({ phase: 'computed', number: event.number, figures: event.figures })
    else ports.onProgress?.({ phase: 'failed', number: event.number, reason: event.reason })
  }

  /** Null: to be tried again, or no longer the batch to compute. A fault that passes leaves no record, however long it lasts. */
  const outcomeOf = async (batch: string, sealed: BatchSealed): Promise<UpdateComputed | UpdateFailed | null> => {
    try {
      const result = await compute({ ...ports, reader, signal: stopping.signal }, state, sealed)
      tries = 0
      return computed(state, batch, result, ports.now())
    } catch (error) {
      stopping.signal.throwIfAborted()
      tries += 1
      const known = error instanceof InstarError && error.code !== 'internal'
      if (known ? error.retryable : tries < TRIES) {
        waits = known ? error.code : 'internal'
        await delay(Math.min(RETRY_MS * tries, LONGEST_RETRY_MS), undefined, { signal: stopping.signal })
        return null
      }
      tries = 0
      return failed(state, batch, `${known ? error.code : 'crashed'}: ${(error as Error).message}`, ports.now())
    }
  }

  const pump = async (): Promise<void> => {
    clearTimeout(again)
    while (ready && !stopping.signal.aborted && unread === null) {
      const decision = decide(state, options, ports.now(), mine())
      waits = decision.do === 'wait' ? decision.why : decision.do
      if (decision.do === 'wait') {
        // Enough turns, and yet no batch: some of them wait for the candidates beside them.
        if (decision.why === 'turns' && waiting(state, options, ports.now()).usable >= config.batchSize)
          again = setTimeout(wake, config.groupWaitMs)
        return
      }
      await act(decision)
    }
  }

  const { wake, idle } = createPump(pump, (error) => {
    if (!stopping.signal.aborted) ports.onFatal(error)
  })

  return {
    state,
    waits: () => waits,
    async settled() {
      await follower?.caughtUp()
      await idle()
      return ready && unread === null && (waits === 'turns' || waits === 'share' || waits === 'frozen')
    },
    async start() {
      const from = await snapshot?.open(ports.log)
      follower = await followEvents(ports.log, {
        name: `trainer.${config.policy}`,
        ...(from ? { from } : {}),
        topics: ['turns', 'scores', 'updates', 'weights'],
        onEvent(logged) {
          const outcome = evolve(state, logged)
          if (ready) watched(logged, outcome)
          if (logged.id === unread) unread = null
          wake()
          return snapshot?.after(logged)
        },
      })
      follower.done.catch((error: unknown) => ports.onFatal(error as Error))
      await follower.caughtUp()
      requireBase(weightLine(state.weights, config.policy), ports.model)
      ready = true
      share = await ports.log.share(`trainer.${config.policy}`, 'updates', wake)
      wake()
    },
    async stop() {
      stopping.abort()
      clearTimeout(again)
      await Promise.all([share?.leave(), follower?.stop()])
      await idle()
      await snapshot?.close()
    },
  }
}

/** The largest shares of the last batch: one API key's, one subject's. Null before the first. */
const lastShares = (state: TrainerState): { key: number; subject: number } | null => {
  const line = updateLine(state.updates, state.policy)
  const items = line.byId.get(line.last)?.sealed.items ?? []
  if (items.length === 0) return null
  const largest = (of: Iterable<readonly unknown[]>): number =>
    Math.max(0, ...[...of].map(({ length }) => length)) / items.length
  const keyed = items.flatMap(({ turn }) => state.turns.turns.get(turn)?.key ?? [])
  return {
    key: largest(Map.groupBy(keyed, (key) => key).values()),
    subject: largest(Map.groupBy(items, ({ subject }) => subject).values()),
  }
}

const lastFigures = (state: TrainerState): Record<string, number> | null => {
  const line = updateLine(state.updates, state.policy)
  return line.byId.get(line.last)?.update?.event.figures ?? null
}
