/** The publisher service: starts the line, measures candidates and appends verdicts. Rules: core/decide.ts. */
import {
  InstarError,
  baseVersion,
  requireBase,
  requireBaseAdapter,
  weightLine,
  type Asked,
  type BatchSealed,
  type Event,
  type LineStarted,
  type Settings,
  type UpdateComputed,
} from '@instar/events'
import { createTurnReader, partitionOf, TurnFinder } from '@instar/log'
import type { ReadFolder } from '@instar/policy'
import type { Evaluator, Model } from '@instar/engine/port'
import { NO_METRICS, runDecider, type DeciderPorts, type Metrics } from '@instar/process'
import type { PublisherConfig } from './config.ts'
import { probeShortage } from './core/battery.ts'
import { promotionFault, Promotions, type Promotion, type PromotionRequest } from './core/promotions.ts'
import { decide, decidePromotion, lineStarted, unmeasurable, type Decision, type Measured } from './core/decide.ts'
import { placeOf, positiveTurns } from './core/evidence.ts'
import type { Thresholds } from './core/gate.ts'
import { extentChange, ofLine } from './core/line-extent.ts'
import { recordedLimits } from './shell/recorded-limits.ts'
import { evolve, initialState, type PublisherState } from './core/state.ts'
import { promptShortage, type BaseProgress } from './shell/base.ts'
import { evaluate, probesOfLine } from './shell/evaluate.ts'
import { measureBaseWith, requireAnnounced, storeImported } from './shell/import.ts'
import { recordPublisherMetrics } from './shell/metrics.ts'
import type { ProbeSet } from './shell/probes.ts'
import { rowsOfRecords, type TrainedRows } from './shell/serving.ts'
import { STATE_VERSION, stateOfSnapshot } from './shell/snapshot.ts'

export * from './config.ts'
export { gateSection } from './section.ts'
export { contentOf, evaluate, mostTokens, probesOfLine } from './shell/evaluate.ts'
export { NO_PROBES, probesOf, readProbes, type Probe, type ProbeSet } from './shell/probes.ts'
export { onDemand } from './shell/learner-on-demand.ts'
export { openEvaluator, openGate, type EvaluatorSettings } from './shell/open-evaluator.ts'
export { rowsOfLearner, type TrainedRow, type TrainedRows } from './shell/serving.ts'
export { batteryOf, probeShortage } from './core/battery.ts'
export { fallsToReject } from './core/falls.ts'
export { checkCandidate, THRESHOLDS, type Figures, type Thresholds } from './core/gate.ts'
export { decide, decidePromotion, lineStarted, type Decision, type Measured } from './core/decide.ts'
export { evolve, initialState, type PublisherState } from './core/state.ts'
export { publisherFold } from './shell/stored-fold.ts'

export type PublisherPorts = DeciderPorts & {
  /** Samples and scores candidates. */
  evaluator: Evaluator
  /**
   * The log-probs of the embedded trainer, which each server must reproduce before a version is published; absent: not
   * compared. Those of a training server are on the log.
   */
  trained?: TrainedRows
  model: Model
  /** An adapter that a new line has as a part of its base (INSTAR_BASE_ADAPTER). */
  baseAdapter?: ReadFolder | null
  probes: ProbeSet
  metrics?: Metrics
  /** Executes promotions and nothing else. */
  promotionsOnly?: boolean
  /** Lines for the console: progress of the base's measurement, and too few probes. */
  logLine?: (line: string) => void
  /** Called for each verdict on the policy. */
  onProgress?: (verdict: {
    phase: 'published' | 'rejected'
    version: number | null
    reason: string | null
    /** Consecutive measured candidates that the gate rejected, including this one. */
    rejectionsInARow: number
    figures: Record<string, number>
  }) => void
}

export type Publisher = {
  start(): Promise<void>
  stop(): Promise<void>
  /** The reason why no candidate is measured now: a label of `instar_publisher_waits`, or the error that is retried. */
  waits(): string
  /** Whether the policy is this process's, and not another's for which this one stands by. */
  leads(): boolean
  /**
   * Measures the last version of a branch and publishes it if the gate accepts it. `branch`: the key of the branch. `asked`:
   * recorded with the verdict. Throws
   * `unknown_branch`, `empty_branch`, `unfinished_branch`, `lost_race` if another command moved the head meanwhile, `stopping`, and errors of the log and of the evaluator.
   */
  promote(branch: string, asked: Asked): Promise<Promotion>
  state: PublisherState
}

export const createPublisher = (ports: PublisherPorts, config: PublisherConfig): Publisher => {
  const { policy } = config
  const partition = partitionOf(policy, ports.log.partitions('weights'))
  const recorded = rowsOfRecords(ports.log)
  const trained: TrainedRows = async (candidate) =>
    (await recorded(candidate)) ?? (await ports.trained?.(candidate)) ?? null
  const promotions = new Promotions(policy)
  let measured: Measured | null = null

  const publisher = runDecider<PublisherState, Decision | { do: 'promote'; request: PromotionRequest }>({
    ports,
    service: 'publisher',
    policy,
    topics: ['scores', 'updates', 'weights'],
    gather: ['scores'],
    assignment: 'weights',
    snapshot: { version: STATE_VERSION, state: (snapshot) => stateOfSnapshot(snapshot, policy) },
    core: {
      initialState: () => initialState(policy),
      evolve,
      decide(state, { now, assigned }) {
        const request = promotions.first()
        if (request) return { do: 'promote', request }
        if (ports.promotionsOnly) return { do: 'wait', why: 'promotions' }
        return decide(state, measured, ofPresentLine().limits, now, assigned(partition))
      },
    },
    async act(decision, { signal }) {
      switch (decision.do) {
        case 'start':
          return start(signal)
        case 'evaluate':
          measured = await measure(decision.update, decision.computed, decision.sealed)
          return null
        case 'append':
          return decision.event
        case 'promote':
          return promote(decision.request, signal)
      }
    },
    giveUp(decision, { code, error }, state) {
      if (decision.do !== 'evaluate') throw error
      return unmeasurable(state, decision.update, code, ports.now())
    },
    onReady(state) {
      const { started } = weightLine(state.weights, policy)
      requireBase(weightLine(state.weights, policy), ports.model)
      if (ports.baseAdapter) requireBaseAdapter(weightLine(state.weights, policy), ports.baseAdapter)
      if (started) logShortage(started)
    },
    onRead(logged, outcome) {
      record(logged, outcome)
      if (!outcome?.counted) return
      report(logged.event)
      if (logged.topic === 'weights' && logged.key === policy) promotions.read(logged.event)
    },
  })
  const { state } = publisher
  let measuring: { started: LineStarted | null; config: PublisherConfig; limits: Thresholds & Settings } | null = null
  /** The settings with which the present line is measured, and as its verdicts record them. */
  const ofPresentLine = (): NonNullable<typeof measuring> => {
    const { started } = weightLine(state.weights, policy)
    if (measuring?.started !== started || measuring === null) {
      const own = ofLine(config, started)
      measuring = { started, config: own, limits: recordedLimits(own, ports.evaluator.scoreOnEach !== undefined) }
    }
    return measuring
  }
  const finder = new TurnFinder(ports.log, (turn) => placeOf(state, turn))
  const reader = createTurnReader(ports.log, (turn) => finder.positionOf(turn))
  const record = recordPublisherMetrics(ports.metrics ?? NO_METRICS, () => ({
    policy,
    waits: publisher.waits(),
    rejectionsInARow: weightLine(state.weights, policy).rejectionsInARow,
    probes: probesOfLine(ports.probes, weightLine(state.weights, policy).started).length,
    asking,
  }))
  let asking: BaseProgress | null = null

  const logShortage = (started: LineStarted): void => {
    const shortage = probeShortage(started, config.battery.minimum, probesOfLine(ports.probes, started).length)
    const own = ofLine(config, started)
    for (const line of [shortage, promptShortage(ports.model, ports.probes, own), extentChange(config, started)])
      if (line !== '') ports.logLine?.(`WARNING: ${line}`)
  }

  const start = async (signal: AbortSignal): Promise<Event | null> => {
    const imports = ports.baseAdapter ?? null
    if (imports) requireAnnounced(ports.log)
    const base = await measureBaseWith(imports, { ...ports, config, onProgress: logProgress }).finally(() => {
      asking = null
    })
    if (weightLine(state.weights, policy).started) return null
    const at = ports.now()
    const imported = imports && (await storeImported(ports.log, imports, at, signal))
    const { name, sha256 } = ports.model
    const started = lineStarted(policy, { name, sha256 }, { ...config.thresholds, ...base }, at, imported)
    logShortage(started)
    return started
  }

  const logProgress = (progress: BaseProgress): void => {
    const { asked, of, kept } = progress
    asking = progress
    if (asked > 0) ports.logLine?.(`the gate asks the base its probes: ${asked} of ${of} asked, ${kept} kept`)
  }

  const measure = async (update: string, computed: UpdateComputed, sealed: BatchSealed): Promise<Measured> => {
    const line = weightLine(state.weights, policy)
    const head = line.versions.get(line.head)
    if (!head)
      throw new InstarError('internal', `the head of ${policy} is version ${line.head}, which is not on the log`)
    const positive = positiveTurns(state, config.positiveTurns)
    const figures = await evaluate({ ...ports, trained, reader }, ofPresentLine().config, {
      computed,
      sealed,
      head,
      started: line.started,
      base: baseVersion(state.weights, policy),
      positive,
      parent: head.published?.figures ?? line.started?.settings ?? {},
    })
    return { update, head: head.version, figures, evidence: positive }
  }

  /** The next step of a promotion. An error rejects the promise of its caller and does not stop the service. */
  const promote = async (request: PromotionRequest, signal: AbortSignal): Promise<Event | null> => {
    try {
      promotions.requireInForce(request)
      const decision = decidePromotion(state, request, request.measured, ofPresentLine().limits, ports.now())
      if (decision.do === 'refuse') throw promotionFault(request, decision.why)
      if (decision.do === 'append') return (request.appended = decision.event)
      request.measured = await measure(decision.update, decision.computed, decision.sealed)
      return null
    } catch (error) {
      signal.throwIfAborted()
      promotions.fail(request, error as Error)
      return null
    }
  }

  const report = (event: Event): void => {
    if ((event.type !== 'VersionPublished' && event.type !== 'VersionRejected') || event.policy !== policy) return
    const { rejectionsInARow } = weightLine(state.weights, policy)
    ports.onProgress?.(
      event.type === 'VersionPublished'
        ? { phase: 'published', version: event.number, reason: null, rejectionsInARow, figures: event.figures }
        : { phase: 'rejected', version: null, reason: event.reason, rejectionsInARow, figures: event.figures },
    )
  }

  return {
    state,
    waits: () => publisher.waits(),
    leads: () => publisher.assigned(partition),
    promote(branch, asked) {
      const promotion = promotions.add(branch, asked)
      publisher.wake()
      return promotion
    },
    start: () => publisher.start(),
    async stop() {
      await publisher.stop()
      promotions.stop()
    },
  }
}
