/** Requests on their way to judges: which go next, which are held, and how many are judged at once. */
import { Backlog } from './core/backlog.ts'
import {
  isStale,
  passOver,
  stillOurs,
  type JudgeRequest,
  type Output,
  type PassedOver,
  type Rules,
} from './core/decide.ts'
import { scoreOf } from './core/need.ts'
import type { ScorerState } from './core/state.ts'
import { isWanted } from './core/waiting.ts'

export { WAITING_MS } from './core/waiting.ts'

export type JudgingPorts = {
  state: ScorerState
  signal: AbortSignal
  now(): number
  /** Judgements at a time; the same number of turns with feedback is read at a time. */
  concurrency: number
  /** Requests that wait, at most. */
  most: number
  rules(): Rules
  assigned(partition: number): boolean
  /** Null: something else has come of the turn. */
  judge(request: JudgeRequest): Promise<Output | null>
  append(output: Output & { do: 'append' }): void
  background(work: Promise<void>): void
  wake(): void
}

export type Judging = {
  /** A lower limit holds from the next request on. */
  limit(most: number): void
  push(request: JudgeRequest): void
  /** Judges at work are `concurrency`, or all of the backlog is held. The same holds of feedback, for which no judge works. */
  start(): void
  /** What is held is looked at again by the next `start`. */
  release(): void
  /** A turn that waited for a batch has left since the last `start`. */
  hasRoom(): boolean
  judging(): number
  /** With feedback. */
  waiting(): number
  given(): number
  held(): number
  /** Turns that need a score and are held. */
  heldNeeded(): number
}

export const createJudging = (ports: JudgingPorts): Judging => {
  const { state, signal, now, concurrency } = ports
  const backlog = new Backlog(ports.most)
  /** Feedback whose turns are to be read, oldest first: each takes the memory of its conversation. */
  const given: JudgeRequest[] = []
  let reading = 0
  let judging = 0
  /** `state.waiting.left` when what is held was looked at. */
  let leftThen = 0

  const leaveOut = (request: JudgeRequest, why: PassedOver): void => {
    const output = passOver(state, request, why, now())
    if (output?.do === 'append') ports.append(output)
  }

  const judge = async (request: JudgeRequest): Promise<void> => {
    const output = await ports.judge(request)
    if (output?.do === 'append') return ports.append(output)
    const policy = state.turns.turns.get(request.turn)?.policy
    if (policy !== undefined && !request.feedback && !scoreOf(state, request.turn))
      state.waiting.remove(policy, request.turn)
  }

  const readGiven = (): void => {
    while (reading < concurrency && !signal.aborted) {
      const request = given.shift()
      if (!request) break
      if (!stillOurs(state, request, ports.assigned)) continue
      reading += 1
      ports.background(
        judge(request).finally(() => {
          reading -= 1
          start()
        }),
      )
    }
  }

  const start = (): void => {
    readGiven()
    state.waiting.expire(now())
    if (state.waiting.left !== leftThen) backlog.release()
    leftThen = state.waiting.left
    while (judging < concurrency && !signal.aborted) {
      const entry = backlog.newest()
      if (!entry) return
      const { request } = entry
      if (!stillOurs(state, request, ports.assigned)) continue
      if (isStale(state, request, ports.rules())) {
        leaveOut(request, 'stale')
        continue
      }
      const turn = state.turns.turns.get(request.turn)
      if (turn && !isWanted(state, turn, ports.rules())) {
        backlog.hold(entry)
        continue
      }
      if (turn) state.waiting.begin(turn, now())
      judging += 1
      ports.background(
        judge(request).finally(() => {
          judging -= 1
          ports.wake()
          start()
        }),
      )
    }
  }

  return {
    start,
    limit: (most) => {
      backlog.most = most
    },
    push(request) {
      if (request.feedback) return void given.push(request)
      const at = state.turns.turns.get(request.shown ?? request.turn)?.finishedAt ?? 0
      for (const shed of backlog.push(request, at))
        if (stillOurs(state, shed.request, ports.assigned)) leaveOut(shed.request, shed.why)
    },
    release: () => backlog.release(),
    hasRoom: () => state.waiting.left !== leftThen,
    judging: () => judging,
    waiting: () => backlog.size + given.length,
    given: () => given.length,
    held: () => backlog.heldCount,
    heldNeeded: () =>
      backlog.held.filter(({ turn, ask }) => {
        const work = state.work.get(turn)
        return work?.step === 'judging' && work.ask === ask && state.needed.has(turn)
      }).length,
  }
}
