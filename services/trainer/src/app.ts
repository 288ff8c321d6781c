/** The trainer service: follows three topics, at first `turns` too, seals batches, computes updates and appends both. Rules: core/decide.ts. */
import { InstarError, requireBase, weightLine, type Event, type Settings } from '@instar/events'
import { createTurnReader, partitionOf, TurnFinder } from '@instar/log'
import type { LearningEngine, Model } from '@instar/engine/port'
import { NO_METRICS, runDecider, type DeciderPorts, type Metrics } from '@instar/process'
import type { TrainerConfig } from './config.ts'
import { RULES } from './core/baseline.ts'
import { countEpisodes, countWaiting, nextReadyAt, type BatchSettings } from './core/batch.ts'
import { computed, decide, failed, failedWithParent, type Decision } from './core/decide.ts'
import { countPending } from './core/pending.ts'
import { evolve, initialState, type TrainerState } from './core/state.ts'
import { placeOf } from './core/told.ts'
import { lastFigures, lastShares } from './core/last-batch.ts'
import { progressOf, type UpdateProgress } from './core/progress.ts'
import { AheadSteps } from './shell/ahead.ts'
import { compute, store } from './shell/compute.ts'
import type { TrainingServerOptions } from './shell/remote/open.ts'
import { RemoteTrainer } from './shell/remote/trainer.ts'
import { openLosses } from './shell/losses.ts'
import { recordTrainerMetrics } from './shell/metrics.ts'
import { withRehearsal } from './shell/rehearsal.ts'
import { topicsLeft } from './shell/topics-left.ts'
import { STATE_VERSION, stateOfSnapshot } from './shell/snapshot.ts'
import { createWaitReports, type OnWait } from './shell/wait-reports.ts'

export * from './config.ts'
export { trainingSection } from './section.ts'
export { trainingServer, type TrainingServerOptions } from './shell/remote/open.ts'
export { compute, parentOf } from './shell/compute.ts'
export { progressOf, progressText, type UpdateProgress } from './core/progress.ts'
export { stepSettings, trainItem } from './shell/train-item.ts'
export { verify, type VerifyReport } from './shell/verify.ts'
export { replay, type ReplayPorts, type ReplayProgress, type ReplayReport } from './shell/replay.ts'
export type { Bound, ReplayOptions } from './core/replay.ts'
export { advantages, type Baselines } from './core/baseline.ts'
export { hasSignal, MAX_ITEMS, usableVersions, type BatchSettings } from './core/batch.ts'
export { countPending } from './core/pending.ts'
export { computed, decide, failed, type Computed, type Decision } from './core/decide.ts'
export { evolve, initialState, type TrainerState } from './core/state.ts'
export { trainerFold } from './shell/stored-fold.ts'
export { neededTurns } from './shell/needed-turns.ts'
export { auditFold } from './shell/stored-audit.ts'
export type { AuditStart, Trusted } from './shell/audit.ts'

/** Where updates are computed: the embedded engine, or a Tinker server. */
type TrainerEngine = { learner: LearningEngine; server?: never } | { server: TrainingServerOptions; learner?: never }

export type TrainerPorts = DeciderPorts &
  TrainerEngine & {
    model: Model
    metrics?: Metrics
    /** Where the computations that ended engine or process are counted; absent: they are counted for this process. */
    lossesFolder?: string
    /** Called for each batch when it is sealed, computed or failed. */
    onProgress?: (progress: {
      phase: 'sealed' | 'computed' | 'failed'
      number: number
      figures?: Record<string, number>
      reason?: string
    }) => void
    onWait?: OnWait
    /** The embedded engine computes while the gate measures: not where the gate measures with it. Default false. */
    ahead?: boolean
    /** Called while an update is computed, at most every PROGRESS_MS. */
    onUpdate?: (progress: UpdateProgress) => void
  }

/** An update that takes no longer is not reported. */
const PROGRESS_MS = 10_000

/**
 * Times in a row that the engine, or the process, may end while it computes one batch. Then the batch has failed: it
 * would end again.
 */
const MAX_LOSSES = 5

/** An engine that did not run, or ended at other work, is not the batch's fault. */
const isEndOfEngine = (error: unknown): boolean =>
  error instanceof InstarError && error.code === 'engine_lost' && error.details.running === 'step'

export type Trainer = {
  start(): Promise<void>
  stop(): Promise<void>
  /** The reason why no batch is computed now: a label of `instar_trainer_waits`, or the error that is retried. */
  waits(): string
  /** Whether the policy is this process's, and not another's for which this one stands by. */
  leads(): boolean
  /** Reads the log to its end as of the call. True if there is nothing to do and every appended record has been read. */
  settled(): Promise<boolean>
  state: TrainerState
}

/** The settings that a batch records, and under which `verify` and `replay` compute it again. */
export const batchSettings = ({ step, ...config }: TrainerConfig, remote = false): Settings =>
  withRehearsal({
    ...step,
    ...(remote ? { sampledTokens: 1, sharedPrefixes: config.sharedPrefixes ? 1 : 0, rehearsalRows: 0 } : {}),
    batchSize: config.batchSize,
    batchMax: config.batchMax,
    staleness: config.staleness,
    keyShare: config.keyShare,
    subjectShare: config.subjectShare,
    turnScoreWeight: config.turnScoreWeight,
    rules: RULES,
  })

export const createTrainer = (ports: TrainerPorts, config: TrainerConfig): Trainer => {
  const { policy, batchSize, batchMax, staleness, groupWaitMs, keyShare, subjectShare, keyHeardMs, loss } = config
  const { taskEpisodes, taskWaitMs, turnScoreWeight } = config
  const shares = { keyShare, subjectShare }
  const options: BatchSettings = {
    batchSize,
    batchMax,
    staleness,
    groupWaitMs,
    keyHeardMs,
    ...shares,
    taskEpisodes,
    taskWaitMs,
    turnScoreWeight,
    loss,
    settings: batchSettings(config, ports.server !== undefined),
  }
  const partition = partitionOf(policy, ports.log.partitions('updates'))

  const progress = (event: Event): void => {
    if (event.type === 'BatchSealed') ports.onProgress?.({ phase: 'sealed', number: event.number })
    else if (event.type === 'UpdateComputed')
      ports.onProgress?.({ phase: 'computed', number: event.number, figures: event.figures })
    else if (event.type === 'UpdateFailed')
      ports.onProgress?.({ phase: 'failed', number: event.number, reason: event.reason })
  }

  /** The update that is being computed; null between updates. */
  let current: UpdateProgress | null = null
  const begin = (number: number): ((share: number) => void) => {
    const startedAt = ports.now()
    let reportedAt = startedAt
    current = progressOf(number, 0, 0)
    return (share) => {
      const now = ports.now()
      current = progressOf(number, share, now - startedAt)
      if (now - reportedAt < PROGRESS_MS) return
      reportedAt = now
      ports.onUpdate?.(current)
    }
  }

  const losses = openLosses(ports.lossesFolder ?? null, policy)
  const lost = (state: TrainerState, batch: string, message: string): Event | null => {
    losses.settled()
    const reason = `engine_lost: ${message} This happened ${MAX_LOSSES} times in a row.`
    return failed(state, batch, reason, ports.now())
  }

  const waitReports = createWaitReports(ports.onWait)
  const { keepStates, step } = config
  const remote = ports.server === undefined ? null : new RemoteTrainer({ ...ports.server, keepStates, rank: step.rank })
  /** Null: no batch is computed ahead. */
  const ahead = ports.ahead === true && config.ahead && ports.learner !== undefined ? new AheadSteps() : null

  const trainer = runDecider<TrainerState, Decision>({
    ports,
    service: 'trainer',
    policy,
    topics: ['turns', 'scores', 'updates', 'weights'],
    gather: ['turns', 'scores'],
    assignment: 'updates',
    ...topicsLeft(ports.log, config.scoresAlone),
    snapshot: { version: STATE_VERSION, state: (snapshot) => stateOfSnapshot(snapshot, policy) },
    core: {
      initialState: () => initialState(policy),
      evolve,
      decide(state, { now, assigned }) {
        const decision = decide(state, options, now, assigned(partition), ahead?.last)
        if (decision.do !== 'wait' || decision.why !== 'turns') return decision
        // Enough turns, but no batch: some wait for other candidates of their requests, at most groupWaitMs.
        if (countWaiting(state, options, ports.now()).usable >= batchSize) return { ...decision, againMs: groupWaitMs }
        const readyAt = nextReadyAt(state, options, now)
        return readyAt === null ? decision : { ...decision, againMs: readyAt - now }
      },
    },
    async act(decision, { state, signal }) {
      if (decision.do === 'append') return decision.event
      const embedded = ports.learner === undefined ? null : { ...ports, learner: ports.learner, reader, signal }
      if (decision.do === 'ahead') {
        if (embedded) await ahead?.compute(embedded, state, decision.ahead, begin(decision.ahead.sealed.number))
        current = null
        return null
      }
      const { batch, sealed } = decision
      // One that another trainer sealed is known before its turns, which are read late and from other partitions.
      if (sealed.items.some(({ turn }) => state.turns.turns.get(turn) === undefined)) await trainer.caughtUp()
      // A batch that a server computes ends neither.
      const counts = embedded !== null
      if (counts && losses.of(batch) >= MAX_LOSSES)
        return lost(state, batch, 'The process ended while it computed the batch.')
      if (counts) losses.begin(batch)
      try {
        const onProgress = begin(sealed.number)
        if (embedded === null) {
          const event = (await remote?.act({ ...ports, reader, signal, onProgress }, state, batch)) ?? null
          waitReports.ended()
          return event
        }
        const done = ahead?.of(sealed)
        const result = await (done ? store(embedded, done) : compute(embedded, state, sealed, onProgress))
        ahead?.clear()
        losses.settled()
        waitReports.ended()
        return computed(state, batch, result, ports.now())
      } catch (error) {
        if (counts && (signal.aborted || !isEndOfEngine(error))) losses.spared(batch)
        signal.throwIfAborted()
        const failure = failedWithParent(state, batch, error, ports.now())
        if (failure) return failure
        waitReports.failed(sealed.number, error)
        if (!counts || losses.of(batch) < MAX_LOSSES) throw error
        return lost(state, batch, (error as Error).message)
      } finally {
        current = null
      }
    },
    giveUp(decision, { code, error }, state) {
      if (decision.do !== 'compute') throw error
      return failed(state, decision.batch, `${code}: ${error.message}`, ports.now())
    },
    onReady: (state) => requireBase(weightLine(state.weights, policy), ports.model),
    onRead: (logged, outcome) => record(logged, outcome),
    onAppended: progress,
  })
  const { state } = trainer
  const finder = new TurnFinder(ports.log, (turn) => placeOf(state, turn))
  const reader = createTurnReader(ports.log, (turn) =>
    state.reads === 'scores' ? finder.positionOf(turn) : state.turns.turns.get(turn),
  )
  const waits = (): string => {
    const waiting = trainer.retrying() ?? trainer.waits()
    return waiting === 'ahead' ? 'verdict' : waiting
  }
  const waiting = (): { held: number; needed: number } => {
    const { usable, held } = countWaiting(state, options, ports.now())
    return { held, needed: Math.max(0, options.batchSize - (usable - held)) }
  }
  const record = recordTrainerMetrics(ports.metrics ?? NO_METRICS, policy, () => ({
    waits: waits(),
    pending: countPending(state),
    ...waiting(),
    episodes: countEpisodes(state, options, ports.now()),
    shares: lastShares(state),
    figures: lastFigures(state),
    update: current,
  }))

  return {
    state,
    waits,
    leads: () => trainer.assigned(partition),
    settled: async () => (await trainer.settled()) && ['turns', 'share', 'frozen'].includes(waits()),
    start: () => trainer.start(),
    async stop() {
      await trainer.stop()
      await remote?.close()
    },
  }
}
