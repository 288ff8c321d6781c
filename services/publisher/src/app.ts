/** The publisher on its ports: starts the line, measures candidates, appends verdicts. Rules: core/decide.ts. */
import {
  encodeEvent,
  InstarError,
  requireBase,
  weightLine,
  type BatchSealed,
  type Event,
  type UpdateComputed,
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
import type { PublisherConfig } from './config.ts'
import { decide, decidePromotion, lineStarted, unmeasurable, type Decision, type Measured } from './core/decide.ts'
import { positiveTurns } from './core/evidence.ts'
import { evolve, initialState, type PublisherState } from './core/state.ts'
import { evaluate, measureBase, type Probe } from './shell/evaluate.ts'
import { watchPublisher } from './shell/metrics.ts'
import { stateVersion, storedState } from './shell/stored-state.ts'

export * from './config.ts'
export { contentOf, evaluate, type Probe } from './shell/evaluate.ts'
export { probesOf } from './shell/probes.ts'
export { rule, THRESHOLDS, type Figures, type Thresholds } from './core/gate.ts'
export { decide, decidePromotion, lineStarted, type Decision, type Measured } from './core/decide.ts'
export { evolve, initialState, type PublisherState } from './core/state.ts'

export type PublisherPorts = {
  log: EventLog
  /** Where the fold is kept between two lives; without it everything is in memory, and read from the start. */
  snapshots?: SnapshotStore | undefined
  learner: LearningEngine
  model: Model
  probes: readonly Probe[]
  now: () => number
  metrics?: Metrics
  /** Puts branches through the gate when it is asked to, and decides nothing by itself. */
  promotionsOnly?: boolean
  onFatal: (error: Error) => void
  onProgress?: (what: {
    phase: 'published' | 'rejected'
    version: number | null
    reason: string | null
    figures: Record<string, number>
  }) => void
}

export type Promotion = { accepted: true; version: number } | { accepted: false; reason: string }

export type Publisher = {
  start(): Promise<void>
  stop(): Promise<void>
  waits(): string
  /** A branch's last version through the gate. Throws `unknown_branch` where there is none. */
  promote(branch: string): Promise<Promotion>
  state: PublisherState
}

/** A fault that nobody knows is tried again so often before the candidate is rejected, visibly. */
const TRIES = 3
const RETRY_MS = 250
const LONGEST_RETRY_MS = 10_000

const REFUSALS = {
  unknown_branch: 'there is no such branch',
  empty_branch: 'it has no version of its own',
  unfinished_branch: 'its replay was not finished',
} as const

export const createPublisher = (ports: PublisherPorts, config: PublisherConfig): Publisher => {
  const snapshot = ports.snapshots?.of(`publisher.${config.policy}`, stateVersion())
  const state = snapshot ? storedState(snapshot, config.policy) : initialState(config.policy)
  const reader = createTurnReader(ports.log, (turn) => state.turns.turns.get(turn))
  const stopping = new AbortController()
  const partition = partitionOf(config.policy, ports.log.partitions('weights'))
  const promotions: {
    branch: string
    settle: (promotion: Promotion) => void
    fail: (error: Error) => void
    measured: Measured | null
    update: string | null
  }[] = []
  let follower: Follower | null = null
  let share: Share | null = null
  let measured: Measured | null = null
  let ready = false
  let unread: string | null = null
  let waits = 'starting'
  let tries = 0

  const mine = (): boolean => share?.mine(partition) ?? false
  const watched = watchPublisher(ports.metrics ?? NO_METRICS, () => ({ policy: config.policy, waits }))

  /** At most one unread append on the chain: decisions wait until this one comes back in log order. */
  const append = async (event: Event): Promise<void> => {
    const record = encodeEvent(event, versionsOn(ports.log))
    unread = record.id
    await persist(ports.log, [record], stopping.signal)
  }

  const start = async (): Promise<void> => {
    const base = await measureBase(ports, config)
    if (weightLine(state.weights, config.policy).started) return
    await append(
      lineStarted(
        config.policy,
        { name: ports.model.name, sha256: ports.model.sha256 },
        { ...config.thresholds, ...base },
        ports.now(),
      ),
    )
  }

  const measure = async (update: string, computed: UpdateComputed, sealed: BatchSealed): Promise<Measured> => {
    const line = weightLine(state.weights, config.policy)
    const head = line.versions.get(line.head)
    if (!head)
      throw new InstarError(
        'internal',
        `the head of ${config.policy} is version ${line.head}, which its log does not hold`,
      )
    const positive = positiveTurns(state, sealed, config.positiveTurns)
    const figures = await evaluate({ ...ports, reader }, config, {
      computed,
      sealed,
      head,
      positive,
      parentLength: head.published?.figures.length ?? line.started?.settings.length,
    })
    return { update, head: head.version, figures, evidence: positive }
  }

  const act = async (decision: Decision, keep: (measured: Measured) => void): Promise<void> => {
    if (decision.do === 'start') return start()
    if (decision.do === 'evaluate') return keep(await measure(decision.update, decision.computed, decision.sealed))
    if (decision.do === 'append') return append(decision.event)
  }

  /** True when there was a promotion to advance. A fault is its caller's to know; the service goes on. */
  const pumpPromotion = async (): Promise<boolean> => {
    const request = promotions[0]
    if (!request) return false
    try {
      await advance(request)
    } catch (error) {
      stopping.signal.throwIfAborted()
      promotions.shift()
      request.fail(error as Error)
    }
    return true
  }

  const advance = async (request: (typeof promotions)[number]): Promise<void> => {
    const verdict =
      request.update === null ? undefined : weightLine(state.weights, config.policy).verdicts.get(request.update)
    if (verdict) {
      promotions.shift()
      request.settle(
        verdict.accepted ? { accepted: true, version: verdict.version } : { accepted: false, reason: verdict.reason },
      )
      return
    }
    const decision = decidePromotion(state, request.branch, request.measured, config.thresholds, ports.now())
    if (decision.do === 'refuse') {
      const name = request.branch.slice(request.branch.indexOf('~') + 1)
      throw new InstarError(decision.why, `branch ${name}: ${REFUSALS[decision.why]}`, { branch: name })
    }
    if (decision.do === 'append') request.update = decision.event.update
    await act(decision, (m) => {
      request.measured = m
    })
  }

  const pump = async (): Promise<void> => {
    while (ready && !stopping.signal.aborted && unread === null) {
      if (await pumpPromotion()) continue
      if (ports.promotionsOnly) return
      const decision = decide(state, measured, config.thresholds, ports.now(), mine())
      waits = decision.do === 'wait' ? decision.why : decision.do
      if (decision.do === 'wait') return
      try {
        await act(decision, (m) => {
          measured = m
        })
        tries = 0
      } catch (error) {
        stopping.signal.throwIfAborted()
        tries += 1
        const known = error instanceof InstarError && error.code !== 'internal'
        if (known ? error.retryable : tries < TRIES)
          await delay(Math.min(RETRY_MS * tries, LONGEST_RETRY_MS), undefined, { signal: stopping.signal })
        else if (decision.do === 'evaluate')
          await append(unmeasurable(state, decision.update, known ? error.code : 'crashed', ports.now()))
        else throw error
      }
    }
  }

  const { wake, idle } = createPump(pump, (error) => {
    if (!stopping.signal.aborted) ports.onFatal(error)
  })

  const report = (event: Event): void => {
    if (event.type === 'VersionPublished' && event.policy === config.policy)
      ports.onProgress?.({ phase: 'published', version: event.number, reason: null, figures: event.figures })
    if (event.type === 'VersionRejected' && event.policy === config.policy)
      ports.onProgress?.({ phase: 'rejected', version: null, reason: event.reason, figures: event.figures })
  }

  return {
    state,
    waits: () => waits,
    promote: (branch) =>
      new Promise<Promotion>((settle, fail) => {
        promotions.push({ branch, settle, fail, measured: null, update: null })
        wake()
      }),
    async start() {
      const from = await snapshot?.open(ports.log)
      follower = await followEvents(ports.log, {
        name: `publisher.${config.policy}`,
        ...(from ? { from } : {}),
        topics: ['turns', 'scores', 'updates', 'weights'],
        onEvent(logged) {
          const outcome = evolve(state, logged)
          if (ready) watched(logged, outcome)
          if (logged.id === unread) unread = null
          if (ready && outcome?.counted) report(logged.event)
          wake()
          return snapshot?.after(logged)
        },
      })
      follower.done.catch((error: unknown) => ports.onFatal(error as Error))
      await follower.caughtUp()
      requireBase(weightLine(state.weights, config.policy), ports.model)
      ready = true
      share = await ports.log.share(`publisher.${config.policy}`, 'weights', wake)
      wake()
    },
    async stop() {
      stopping.abort()
      await Promise.all([share?.leave(), follower?.stop()])
      await idle()
      await snapshot?.close()
      for (const request of promotions.splice(0)) request.fail(new InstarError('stopping', 'the publisher is stopping'))
    },
  }
}
