/**
 * The scorer on its ports: follows its partitions of `turns`, all of `scores` (the guards of claims, repetitions, questions
 * and people are over all sessions), of `weights` and of `updates`, asks judges, appends. The rules are in core/decide.ts.
 */
import { InstarError, type Event } from '@instar/events'
import { isCutAway, isTurnRecord, LONGEST_TIMER_MS, versionsOn } from '@instar/log'
import { NO_METRICS, runDecider, type DeciderPorts, type Metrics } from '@instar/process'
import { setImmediate } from 'node:timers/promises'
import { judgeOrder, type ScorerConfig } from './config.ts'
import {
  closeIdle,
  decide,
  hasMore,
  judged,
  lookAgain,
  type JudgeRequest,
  type Output,
  type Rules,
} from './core/decide.ts'
import { settle, withPlaces, type Evidence, type Judged } from './core/judgement.ts'
import { evolve, forgetWork, initialState, isDone, type ScorerState } from './core/state.ts'
import { isOfLog, judgesReader, readAvailable } from './shell/evidence.ts'
import { createJudging, WAITING_MS } from './judging.ts'
import { JUDGES, type JudgePorts } from './shell/judge-table.ts'
import { judgeTurn, type Judge } from './shell/judges.ts'
import { recordScorerMetrics } from './shell/metrics.ts'
import { STATE_VERSION, stateOfSnapshot } from './shell/snapshot.ts'
import type { ScorerWork } from './work.ts'

export { judgeNamed, judgeOrder, judgeText, onlyJudge, scorerConfig } from './config.ts'
export { judgeSection } from './section.ts'
export { closeIdle, decide, judged, lookAgain, stillOurs } from './core/decide.ts'
export type { JudgeRequest, Output, Rules } from './core/decide.ts'
export { scoreOf } from './core/need.ts'
export { evolve, forgetWork, initialState, type ScorerState } from './core/state.ts'
export { scorerFold } from './shell/stored-fold.ts'
export { unscoredTurns } from './shell/unscored-turns.ts'
export { settle, type Evidence, type Judged, type Judgement } from './core/judgement.ts'
export { askedOf, askedVerdict, askerOf } from './core/asked-alone.ts'
export { claimIn, foldClaim, withAgreement, type ClaimTable } from './core/claims.ts'
export { hintKind } from './core/hints.ts'
export { withNegation } from './core/negation.ts'
export { hintOfWords, judgeReaction } from './core/reactions/judge.ts'
export { readEvidence } from './shell/evidence.ts'
export { judgeTurn, type Judge } from './shell/judges.ts'
export { reactionsJudge } from './shell/reactions-judge.ts'
export { reactionModel } from './shell/weights.ts'
export { openJudge } from './shell/choose-judge.ts'
export { createLlmJudge } from './shell/llm-judge.ts'
export type { GatewayAddress } from './shell/self-judge.ts'

export type ScorerPorts = DeciderPorts & {
  /** Receives one line, for people, when a judge cannot be reached or is replaced, and one when it recovers. */
  logLine?: (line: string) => void
  /** Calls `then` once, after `ms`; returns how to cancel it. Default: the process's timers. */
  after?: (ms: number, then: () => void) => () => void
  fetch?: typeof fetch
  /** The gateway through which the base weights judge. */
  gateway?: JudgePorts['gateway']
  /** Instead of those that the configuration names. */
  judges?: readonly Judge[]
  metrics?: Metrics
  /** For people who watch. */
  onScored?: (what: { turn: string; reward: number | null; reason: string | null; hint: boolean }) => void
}

export type Scorer = {
  /** With the log read to its end as of the call: is every turn scored that is to be, and every beginning and end of an episode recorded? */ settled(): Promise<boolean>
  start(): Promise<void>
  /** From here on these judge, in the place of those of the configuration. */
  useJudges(judges: readonly Judge[]): void
  stop(): Promise<void>
  work(): ScorerWork
  /** Whether the partition of `turns` is this process's share. */
  assigned(partition: number): boolean
  state: ScorerState
}

export const createJudges = (config: ScorerConfig, ports: JudgePorts): Judge[] =>
  judgeOrder(config).flatMap((name) => JUDGES[name](config, ports))

/** Records and judgements in progress at a time; the rest waits in the state. */
const UNDER_WAY = 1024

/** At least so long between two looks for quiet sessions, ms: the records of the last one are on their way. */
const CLOSING_MS = 20

/** Null: no limit. */
const mostWaiting = ({ waitingBatches, batchSize, batchMax }: ScorerConfig): number | null =>
  waitingBatches === 0 ? null : waitingBatches * Math.max(batchSize, batchMax)

const processTimer = (ms: number, then: () => void): (() => void) => {
  const timer = setTimeout(then, Math.min(ms, LONGEST_TIMER_MS))
  return () => clearTimeout(timer)
}

/** What `decide` found to do in one walk. */
type DueWork = { do: 'work'; outputs: readonly Output[] }

export const createScorer = (ports: ScorerPorts, config: ScorerConfig): Scorer => {
  const { log, now, after = processTimer } = ports
  let judges = ports.judges ?? createJudges(config, ports)
  // The limits on staleness, on the backlog and on what waits for a batch save the time of slow judges. With quick judges
  // only, none applies.
  const isSlow = (): boolean => judges.some((judge) => !judge.quick)
  const rulesNow = (): Rules => ({
    idleMs: config.idleMs,
    judgesNeedNextState: judges.every((judge) => judge.needsNextState),
    staleness: isSlow() ? config.staleness : null,
    waiting: isSlow() ? mostWaiting(config) : null,
  })
  let [slow, rules] = [isSlow(), rulesNow()]
  let cancelTimer = (): void => undefined

  // With a slow judge the backlog takes no room: `decide` then hands out every turn that waits, and the backlog orders
  // them. Otherwise a backlog of old turns would keep newer ones, which are judged first, from being handed out.
  const room = (): number =>
    UNDER_WAY - scorer.backgroundCount() - judging.given() - (slow ? 0 : judging.waiting() - judging.given())

  const scorer = runDecider<ScorerState, DueWork>({
    ports,
    service: 'scorer',
    policy: config.policy,
    topics: ['turns', 'scores', 'weights', 'updates'],
    gather: ['turns', 'scores'],
    assignment: 'turns',
    divided: true,
    snapshot: {
      version: STATE_VERSION,
      state: (snapshot) => ({ ...stateOfSnapshot(snapshot), versions: versionsOn(log) }),
    },
    core: {
      initialState: () => ({ ...initialState(), versions: versionsOn(log) }),
      evolve,
      decide(state, { now, assigned }) {
        const free = room()
        const outputs = decide(state, rules, now, assigned, free)
        return outputs.length > 0 || (free > 0 && hasMore(state))
          ? { do: 'work', outputs }
          : { do: 'wait', why: 'turns' }
      },
    },
    /** Starts what was decided and does not wait for it: judges work side by side. */
    async act({ outputs }, { state }) {
      outputs.forEach(carryOut)
      judging.start()
      if (hasMore(state)) await setImmediate()
      return null
    },
    onReady(state) {
      for (const one of judges) one.prepare?.()
      forgetWork(state)
    },
    onRead(logged, outcome) {
      record(logged, outcome)
      // What is held may be wanted now, or stale.
      if (logged.topic === 'weights') judging.release()
      if (logged.topic === 'weights' || judging.hasRoom()) judging.start()
      if (outcome?.counted === false) return
      if (isTurnRecord(logged.event)) reader.keepRecent(logged.event)
      report(logged.event)
    },
    onAssigned() {
      lookAgain(state)
      judging.release()
      scorer.wake()
      cancelTimer()
      closeQuietSessions()
    },
  })
  const { state, signal } = scorer
  const reader = judgesReader(log, state)
  const work = (): ScorerWork => ({
    judging: judging.judging(),
    waiting: judging.waiting(),
    held: judging.held(),
    scoredWaiting: state.waiting.size,
    needed: state.needed.size,
    share: Array.from({ length: log.partitions('turns') }, (_, one) => scorer.assigned(one)).filter(Boolean).length,
    catchingUp: scorer.catchingUp(),
  })
  const record = recordScorerMetrics(
    ports.metrics ?? NO_METRICS,
    work,
    () => state,
    () => judges.map((judge) => judge.steppedDown?.() ?? null).find((down) => down !== null) ?? null,
  )

  const report = (event: Event): void => {
    if (event.type === 'TurnSkipped')
      ports.onScored?.({ turn: event.turn, reward: null, reason: event.reason, hint: false })
    else if (event.type === 'TurnScored' || event.type === 'ScoreRevised')
      ports.onScored?.({ turn: event.turn, reward: event.reward, reason: null, hint: event.hint !== null })
  }

  const carryOut = (output: Output): void => {
    if (output.do === 'append') scorer.background(scorer.append(output.event))
    else judging.push(output)
  }

  /**
   * What cannot be read (a damaged or missing body, a text that breaks what reads it) says nothing about the answer;
   * feedback holds without it. An error here would be met again after each restart.
   */
  const judgementOf = async (request: JudgeRequest): Promise<Judged> => {
    let evidence: Evidence
    try {
      evidence = await readAvailable(reader, request.turn, request, signal)
    } catch (error) {
      signal.throwIfAborted()
      // Anybody may give feedback on a turn that was cut: the scorer must not end for it where no archive is set.
      if (isOfLog(error) && !(request.feedback && isCutAway(error))) throw error
      if (!(error instanceof InstarError))
        ports.logLine?.(`The turn ${request.turn} cannot be read for its judge: ${(error as Error).name}.`)
      if (!request.feedback) return { ...settle([]), reason: 'unreadable' }
      evidence = { request: '', answer: '', calls: false, next: null }
    }
    return withPlaces(await judgeTurn(judges, request, evidence, signal, config.reactions.wordings), evidence)
  }

  const mostQueued = (): number => (slow ? config.backlog : Infinity)
  const judging = createJudging({
    state,
    signal,
    now,
    concurrency: config.concurrency,
    most: mostQueued(),
    rules: () => rules,
    assigned: (partition) => scorer.assigned(partition),
    judge: async (request) => judged(state, request, await judgementOf(request), now(), config),
    append: carryOut,
    background: (done) => scorer.background(done),
    wake: () => scorer.wake(),
  })

  const closeQuietSessions = (): void => {
    if (signal.aborted) return
    const { outputs, lookAt } = closeIdle(state, rules, now(), scorer.assigned, UNDER_WAY - scorer.backgroundCount())
    outputs.forEach(carryOut)
    judging.start()
    cancelTimer = after(Math.max(CLOSING_MS, Math.min(lookAt - now(), WAITING_MS)), closeQuietSessions)
  }

  return {
    state,
    work,
    assigned: (partition) => scorer.assigned(partition),
    settled: async () => (await scorer.settled()) && isDone(state, judging.heldNeeded()),
    start: () => scorer.start(),
    useJudges(chosen) {
      judges = chosen
      ;[slow, rules] = [isSlow(), rulesNow()]
      judging.limit(mostQueued())
      judging.release()
      for (const one of judges) one.prepare?.()
    },
    async stop() {
      cancelTimer()
      await scorer.stop()
    },
  }
}
