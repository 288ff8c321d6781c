/**
 * What is to be done now. A turn needs a score when it has a next state, is closed, or has feedback that
 * outranks the score in force. Being wrong here is waste, never disagreement: the fold of `scores` decides
 * what counts, and a record of ours counts when it is read back.
 */
import {
  closings,
  discardRank,
  encodeEvent,
  lineageDistance,
  openTurns,
  scoredFacts,
  shownOf,
  weightLine,
  written,
  type EpisodeRecord,
  type ScoreRevised,
  type ScoreState,
  type SessionClosed,
  type TurnScored,
  type TurnSkipped,
  type TurnState,
} from '@instar/events'
import { asShown, beginPending, MOST_ALONE, withAskers } from './asked-alone.ts'
import { LEAST_AGREEMENT, withAgreement } from './claims.ts'
import { countPending, MOST_DUPLICATES, seenIn, seenName, withCap } from './duplicates.ts'
import { earliest, park, pop, unpark, unwatch, watchAgain } from './idle.ts'
import type { Judged } from './judgement.ts'
import { episodeRecords, hasEpisodes, lookAtEpisodes } from './episode-records.ts'
import { needOf, rankOf, scoreOf, type Need } from './need.ts'
import { withNegation } from './negation.ts'
import { LEAST_OPINIONS, withRecord } from './own-record.ts'
import { lookAt, type ScorerState } from './state.ts'

export type Rules = {
  /** A session in which no turn has finished for this long is closed, ms. */
  idleMs: number
  /** Every configured judge needs a next state: an answer without one is skipped. */
  judgesNeedNextState: boolean
  /** Maximum staleness of a turn that is judged, in updates; null: all are judged. */
  staleness: number | null
  /** Scored turns that wait for a batch from which on no judge is asked; null: any number (waiting.ts). */
  waiting: number | null
}

/** Is the work on this partition of `turns` this process's? Others do the rest; two may do the same for a time. */
type IsAssigned = (partition: number) => boolean
const everything: IsAssigned = () => true

export type JudgeRequest = Need & {
  do: 'judge'
  /** Goes back with the answer (`judged`). */
  ask: number
  turn: string
}

type ScoreEvent = TurnScored | TurnSkipped | ScoreRevised
export type Output = { do: 'append'; record: string; event: ScoreEvent | SessionClosed | EpisodeRecord } | JudgeRequest

/**
 * Looks at each turn that was touched, once: what it hands out is marked in `state.work`, so that at most one
 * append of a turn is unread, and the turn is touched again when that is read back or something new is said of it.
 * Turns that are others' to score stay among those that are needed, for `lookAgain`. Records of episodes follow. After `most` outputs, or LOOKS
 * turns of a walk over all that are needed, the rest waits for the next call.
 */
export const decide = (
  state: ScorerState,
  rules: Rules,
  now: number,
  assigned: IsAssigned = everything,
  most = Infinity,
): Output[] => {
  const outputs: Output[] = []
  for (const id of toLookAt(state, () => outputs.length < most)) {
    const turn = state.turns.turns.get(id)
    const need = turn && needOf(state, turn)
    if (!turn || !need) continue
    const work = state.work.get(id)
    if (work?.step === 'appended' || work?.cause === need.cause) continue
    if (!assigned(turn.partition)) continue
    if (need.discarded) {
      const skip = skipped(state, turn, need.cause, 'discarded', [], now)
      // A scorer that has given its partition up may have read a rating and not the abort.
      const isRanked = turn.feedback.length > 0 || scoreOf(state, id) !== undefined
      outputs.push(appendScore(state, { ...skip, rank: isRanked ? discardRank(need.cause) : null }))
      continue
    }
    if ((need.next === null || need.shown !== null) && need.feedback === null && rules.judgesNeedNextState) {
      outputs.push(appendScore(state, skipped(state, turn, need.cause, 'no_next_state', [], now)))
      continue
    }
    state.asked += 1
    state.work.set(id, { step: 'judging', ask: state.asked, cause: need.cause })
    outputs.push({ do: 'judge', ask: state.asked, turn: id, ...need })
  }
  return [...outputs, ...episodeRecords(state, now, assigned, most - outputs.length)]
}

/** Touched turns first, then those of the walk over all needed turns. Each is removed as it is yielded. */
const toLookAt = function* (state: ScorerState, more: () => boolean): Generator<string> {
  while (more()) {
    const [touched] = state.touched
    if (touched === undefined) break
    state.touched.delete(touched)
    yield touched
  }
  for (let looks = 0; looks < LOOKS && more(); looks += 1) {
    if (!walks.has(state)) {
      if (!state.sweep) return
      state.sweep = false
      walks.set(state, state.needed[Symbol.iterator]())
    }
    const { value, done } = walks.get(state)!.next()
    if (done) walks.delete(state)
    else yield value
  }
}
const LOOKS = 4096
/** Where a walk has come to: this process's affair alone, and no part of a snapshot. */
const walks = new WeakMap<ScorerState, Iterator<string, undefined>>()

/** There is more to look at than the last `decide` did. */
export const hasMore = (state: ScorerState): boolean =>
  state.touched.size > 0 || state.sweep || walks.has(state) || hasEpisodes(state)

/** True for a turn that no batch will take by the time it is scored. Imported turns are always judged. */
export const isStale = (
  state: ScorerState,
  { turn: id }: Pick<JudgeRequest, 'turn'>,
  { staleness }: Rules,
): boolean => {
  const turn = state.turns.turns.get(id)
  if (!turn || staleness === null) return false
  const line = weightLine(state.weights, turn.policy)
  if (!line.versions.has(turn.version)) return false
  const distance = lineageDistance(line, turn.version, line.head)
  return distance === null || distance > staleness
}

/** Too many turns wait for the judge; no batch would take the turn; enough scored turns wait for a batch. */
export type PassedOver = 'overloaded' | 'stale' | 'surplus'

/** The record of a turn that no judge is asked about, and why; null when something else has come of it. */
export const passOver = (state: ScorerState, request: JudgeRequest, reason: PassedOver, now: number): Output | null =>
  judged(state, request, { verdicts: [], reward: null, judge: null, hint: null, hintJudge: null, reason }, now)

/**
 * Call when the assignment changed: the next `decide` looks at all unscored turns and missing records of episodes of the assigned
 * partitions, also those that another process had begun.
 */
export const lookAgain = (state: ScorerState): void => {
  lookAtEpisodes(state)
  state.sweep = true
  unpark(state.idle)
}

/** True when the request is still needed and the partition is assigned; else the turn is put back for its new owner. */
export const stillOurs = (state: ScorerState, request: JudgeRequest, assigned: IsAssigned = everything): boolean => {
  const turn = underJudgement(state, request)
  if (!turn || assigned(turn.partition)) return turn !== null
  putBack(state, turn)
  return false
}

/** The turn that this request is for, unless something else has come of it since: a later request, another's score. */
const underJudgement = (state: ScorerState, request: JudgeRequest): TurnState | null => {
  const turn = state.turns.turns.get(request.turn)
  const work = state.work.get(request.turn)
  if (!turn || work?.step !== 'judging' || work.ask !== request.ask) return null
  if (needOf(state, turn)?.cause === request.cause) return turn
  putBack(state, turn)
  return null
}

/** The score of the candidate that was shown for the same request. */
const shownScore = (state: ScorerState, turn: TurnState): ScoreState | undefined => {
  const shown = shownOf(state.turns.sessions.get(turn.session), turn)
  return shown && scoreOf(state, shown.turn)
}

const putBack = (state: ScorerState, { turn }: TurnState): void => {
  state.work.delete(turn)
  lookAt(state, turn)
}

/**
 * The record of the judges' verdicts, or null when the request was superseded meanwhile. `agreement`: independent
 * people that a value needs before hint and reward with it
 * count.
 */
export const judged = (
  state: ScorerState,
  request: JudgeRequest,
  opinion: Judged,
  now: number,
  {
    agreement = LEAST_AGREEMENT,
    duplicates = MOST_DUPLICATES,
    askedAlone = MOST_ALONE,
    contradictions = LEAST_OPINIONS,
  }: { agreement?: number; duplicates?: number; askedAlone?: number; contradictions?: number } = {},
): Output | null => {
  const turn = underJudgement(state, request)
  if (!turn) return null
  const { started } = weightLine(state.weights, turn.policy)
  // What is withheld does not use up the cap: others say it in the same words.
  const agreed = withAgreement(state.claims, turn, withNegation(opinion, started), agreement)
  const capped = withCap(state, turn.policy, agreed, now, duplicates)
  const before = scoreOf(state, request.turn)
  // A turn that counts already is counted once.
  const result = before
    ? capped
    : turn.shown
      ? withAskers(state, turn, withRecord(state.records, turn, capped, contradictions), now, askedAlone)
      : asShown(capped, shownScore(state, turn))
  const { reward, judge, hint, verdicts } = result
  const rank = request.feedback ? rankOf(request.feedback) : null
  const facts = factsOf(state, turn, opinion.earlier)
  if (reward === null || judge === null)
    return appendScore(state, {
      ...skipped(state, turn, request.cause, result.reason ?? 'abstained', verdicts, now),
      ...facts,
      rank,
    })
  const carried = hint === null && reward < 0 && before?.hint ? { hint: before.hint, hintJudge: before.judge } : null
  return appendScore(state, {
    type: before ? 'ScoreRevised' : 'TurnScored',
    reward,
    judge,
    hint: hint === null ? (carried?.hint ?? null) : written(hint),
    hintJudge: hint === null ? (carried?.hintJudge ?? null) : result.hintJudge,
    ...facts,
    verdicts,
    cause: request.cause,
    rank,
    at: now,
  })
}

/**
 * Our sessions that have gone quiet, and when to look again (ms since the epoch): at once where `most` outputs were not
 * all. A session with more open turns than a record names is closed by several; the last of them is waited for.
 */
export const closeIdle = (
  state: ScorerState,
  rules: Rules,
  now: number,
  assigned: IsAssigned = everything,
  most = Infinity,
): { outputs: Output[]; lookAt: number } => {
  const { idle } = state
  const outputs: Output[] = []
  for (
    let at = earliest(idle);
    outputs.length < most && at !== undefined && at + rules.idleMs <= now;
    at = earliest(idle)
  ) {
    const session = pop(idle) ?? ''
    const held = state.turns.sessions.get(session)
    const open = openTurns(held)
    if (!held || open.length === 0) unwatch(idle, session)
    else if (state.closing.has(session)) continue
    else if (held.lastAt + rules.idleMs > now) watchAgain(idle, session, held.lastAt)
    else if (!assigned(held.turns[0]?.partition ?? -1)) park(idle, session)
    else {
      for (const part of closings(open)) {
        const event: SessionClosed = { type: 'SessionClosed', session, open: part, why: 'idle', at: now }
        const { id } = encodeEvent(event, state.versions)
        state.closing.set(session, id)
        outputs.push({ do: 'append', record: id, event })
      }
    }
  }
  return { outputs, lookAt: Math.min(now, earliest(idle) ?? now) + rules.idleMs }
}

const factsOf = ({ turns }: ScorerState, turn: TurnState, earlier: readonly number[] | null = null) => ({
  turn: turn.turn,
  session: turn.session,
  policy: turn.policy,
  version: turn.version,
  subject: turn.subject,
  of: scoredFacts(turns.sessions.get(turn.session), turn, earlier),
})

const skipped = (
  state: ScorerState,
  turn: TurnState,
  cause: string,
  reason: string,
  verdicts: TurnSkipped['verdicts'],
  at: number,
): TurnSkipped => ({ type: 'TurnSkipped', reason, ...factsOf(state, turn), verdicts, cause, rank: null, at })

const appendScore = (state: ScorerState, event: ScoreEvent): Output => {
  const { id } = encodeEvent(event, state.versions)
  const same = seenIn(event.verdicts)
  const seen = same === undefined ? undefined : seenName(event.policy, same)
  if (seen !== undefined) countPending(state.pendingSeen, seen, 1)
  beginPending(state.pendingAsked, event)
  state.work.set(event.turn, { step: 'appended', record: id, ...(seen === undefined ? {} : { seen }) })
  return { do: 'append', record: id, event }
}
