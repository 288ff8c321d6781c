/** The scorer on its ports: follows `turns` and `scores`, asks judges, appends. The rules are in core/decide.ts. */
import { encodeEvent, InstarError } from '@instar/events'
import {
  createTurnReader,
  followEvents,
  persist,
  versionsOn,
  type EventLog,
  type Follower,
  type Share,
  type SnapshotStore,
} from '@instar/log'
import { NO_METRICS, type Metrics } from '@instar/process'
import { judgeOrder, type ScorerConfig } from './config.ts'
import { Backlog } from './core/backlog.ts'
import {
  closeIdle,
  decide,
  hasMore,
  isStale,
  judged,
  lookAgain,
  passOver,
  stillOurs,
  type JudgeRequest,
  type Output,
  type Rules,
} from './core/decide.ts'
import { settle, type Evidence, type Judged } from './core/judgement.ts'
import { evolve, forgetWork, initialState, type ScorerState } from './core/state.ts'
import { readEvidence } from './shell/evidence.ts'
import { judgeTurn, signalsJudge, type Judge } from './shell/judges.ts'
import { createLlmJudge } from './shell/llm-judge.ts'
import { watchScorer } from './shell/metrics.ts'
import { stateVersion, storedState } from './shell/stored-state.ts'

export { judgeOrder, scorerConfig, scorerSettings, type ScorerConfig } from './config.ts'
export {
  closeIdle,
  decide,
  judged,
  lookAgain,
  stillOurs,
  type JudgeRequest,
  type Mine,
  type Output,
  type Rules,
} from './core/decide.ts'
export { scoreOf } from './core/need.ts'
export { evolve, forgetWork, initialState, type ScorerState } from './core/state.ts'
export { settle, type Evidence, type Judged, type Judgement } from './core/judgement.ts'
export { judgeBySignals, signalsId } from './core/signals/signals.ts'
export { readEvidence } from './shell/evidence.ts'
export { judgeTurn, signalsJudge, type Judge } from './shell/judges.ts'
export { createLlmJudge } from './shell/llm-judge.ts'

export type ScorerPorts = {
  log: EventLog
  /** Where the fold is kept between two lives; without it everything is in memory, and read from the start. */
  snapshots?: SnapshotStore | undefined
  now: () => number
  /** For people: a judge that gives no verdicts, and that it does again. */
  say?: (line: string) => void
  /** A fault that ends the service: the caller stops the process. */
  onFatal: (error: Error) => void
  /** Calls `then` once, after `ms`; returns how to call it off. Default: the process's timers. */
  after?: (ms: number, then: () => void) => () => void
  fetch?: typeof fetch
  /** Instead of those that the configuration names. */
  judges?: readonly Judge[]
  metrics?: Metrics
  /** For people who watch. */
  onScored?: (what: { turn: string; reward: number | null; reason: string | null; hint: boolean }) => void
}

/** `needed`: turns without a score, whoever's. `share`: partitions of `turns` that are this process's to score. What has been done is counted in its metrics. */
export type ScorerWork = { judging: number; waiting: number; needed: number; share: number }

export type Scorer = {
  /** With the log read to its end as of the call: is every turn scored that is to be? */ settled(): Promise<boolean>
  start(): Promise<void>
  stop(): Promise<void>
  work(): ScorerWork
  state: ScorerState
}

export const createJudges = (config: ScorerConfig, ports: Pick<ScorerPorts, 'fetch' | 'now' | 'say'>): Judge[] =>
  judgeOrder(config).flatMap((name): Judge[] => {
    if (name === 'signals') return [signalsJudge(config.signals)]
    return config.llm
      ? [
          {
            alone: true,
            ...createLlmJudge(config.llm, { fetch: ports.fetch ?? fetch, now: ports.now, say: ports.say }),
          },
        ]
      : []
  })

/** Records and judgements on their way at a time; the rest waits in the state. */
const UNDER_WAY = 1024

/** At least so long between two looks for quiet sessions, ms: the records of the last one are on their way. */
const CLOSING_MS = 20

const processTimer = (ms: number, then: () => void): (() => void) => {
  const timer = setTimeout(then, Math.min(ms, 2 ** 31 - 1))
  return () => clearTimeout(timer)
}

export const createScorer = (ports: ScorerPorts, config: ScorerConfig): Scorer => {
  const { log, now, after = processTimer } = ports
  const judges = ports.judges ?? createJudges(config, ports)
  // What takes no time is not worth leaving out.
  const slow = judges.some((judge) => !judge.quick)
  const rules: Rules = {
    idleMs: config.idleMs,
    judgesAlone: judges.some((judge) => judge.alone),
    staleness: slow ? config.staleness : null,
  }
  const snapshot = ports.snapshots?.of(`scorer.${config.policy}`, stateVersion())
  const state = Object.assign(snapshot ? storedState(snapshot) : initialState(), { versions: versionsOn(log) })
  const reader = createTurnReader(log, (turn) => state.turns.turns.get(turn))
  const stopping = new AbortController()
  const { signal } = stopping
  const running = new Set<Promise<void>>()
  const backlog = new Backlog(slow ? config.backlog : Infinity)
  let judging = 0
  let follower: Follower | null = null
  let share: Share | null = null
  let ready = false
  let callOff = (): void => undefined
  let again: NodeJS.Immediate | undefined

  const mine = (partition: number): boolean => share?.mine(partition) ?? false
  const shared = (): number =>
    Array.from({ length: log.partitions('turns') }, (_, partition) => partition).filter(mine).length
  const work = (): ScorerWork => ({ judging, waiting: backlog.size, needed: state.needed.size, share: shared() })
  const watched = watchScorer(ports.metrics ?? NO_METRICS, work)

  const run = (work: Promise<void>): void => {
    const tracked: Promise<void> = work
      .catch((error: unknown) => {
        if (!signal.aborted) ports.onFatal(error as Error)
      })
      .finally(() => running.delete(tracked))
    running.add(tracked)
  }

  const carryOut = (output: Output): void => {
    if (output.do === 'append') run(persist(log, [encodeEvent(output.event, versionsOn(log))], signal))
    else if (output.feedback) run(judge(output))
    else {
      const shed = backlog.push(output, state.turns.turns.get(output.turn)?.finishedAt ?? 0)
      if (shed) leaveOut(shed, 'overloaded')
    }
  }

  const leaveOut = (request: JudgeRequest, why: 'overloaded' | 'stale'): void => {
    const output = passOver(state, request, why, now())
    if (output) carryOut(output)
  }

  const judge = async (request: JudgeRequest): Promise<void> => {
    const output = judged(state, request, await judgementOf(request), now())
    if (output) carryOut(output)
  }

  /** What cannot be read (a damaged or missing body) says nothing about the answer; feedback holds without it. */
  const judgementOf = async (request: JudgeRequest): Promise<Judged> => {
    let evidence: Evidence
    try {
      evidence = await readEvidence(reader, request.turn, request)
    } catch (error) {
      if (!(error instanceof InstarError) || error.retryable) throw error
      if (!request.feedback) return { ...settle([]), reason: 'unreadable' }
      evidence = { request: '', answer: '', calls: false, next: null }
    }
    return judgeTurn(judges, request, evidence, signal)
  }

  const fill = (): void => {
    while (judging < config.concurrency && !signal.aborted) {
      const request = backlog.newest()
      if (!request) return
      if (!stillOurs(state, request, mine)) continue
      if (isStale(state, request, rules)) {
        leaveOut(request, 'stale')
        continue
      }
      judging += 1
      run(
        judge(request).finally(() => {
          judging -= 1
          pump()
        }),
      )
    }
  }

  const pump = (): void => {
    if (!ready || signal.aborted) return
    clearImmediate(again)
    // Before a slow judge all that waits is looked at, or the newest would not be found.
    const room = UNDER_WAY - running.size - (slow ? 0 : backlog.size)
    decide(state, rules, now(), mine, room).forEach(carryOut)
    fill()
    if (room > 0 && hasMore(state)) again = setImmediate(pump)
  }

  const look = (): void => {
    if (signal.aborted) return
    const { outputs, lookAt } = closeIdle(state, rules, now(), mine, UNDER_WAY - running.size)
    outputs.forEach(carryOut)
    callOff = after(Math.max(CLOSING_MS, lookAt - now()), look)
  }

  const shareChanged = (): void => {
    lookAgain(state)
    pump()
    callOff()
    look()
  }

  return {
    state,
    work,
    async settled() {
      await follower?.caughtUp()
      return ready && state.needed.size === 0
    },
    async start() {
      const from = await snapshot?.open(log)
      follower = await followEvents(log, {
        name: `scorer.${config.policy}`,
        ...(from ? { from } : {}),
        topics: ['turns', 'scores', 'weights'],
        onEvent(logged) {
          const { event } = logged
          const outcome = evolve(state, logged)
          if (ready) watched(logged, outcome)
          if (
            ready &&
            outcome?.counted !== false &&
            (event.type === 'TurnScored' || event.type === 'ScoreRevised' || event.type === 'TurnSkipped')
          ) {
            ports.onScored?.(
              event.type === 'TurnSkipped'
                ? { turn: event.turn, reward: null, reason: event.reason, hint: false }
                : { turn: event.turn, reward: event.reward, reason: null, hint: event.hint !== null },
            )
          }
          if (ready) pump()
          else state.touched.clear()
          return snapshot?.after(logged)
        },
      })
      follower.done.catch((error: unknown) => ports.onFatal(error as Error))
      await follower.caughtUp()
      for (const one of judges) one.prepare?.()
      forgetWork(state)
      ready = true
      share = await log.share(`scorer.${config.policy}`, 'turns', shareChanged)
      shareChanged()
    },
    async stop() {
      stopping.abort()
      callOff()
      clearImmediate(again)
      await Promise.all([share?.leave(), follower?.stop()])
      await Promise.allSettled(running)
      await snapshot?.close()
    },
  }
}
