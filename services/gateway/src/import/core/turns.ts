/**
 * Builds our records from imported requests, by the rules of live turns: subject, continuation, trainability. Processes
 * one session at a time, in chronological order.
 */
import {
  answerKey,
  derivedId,
  InstarError,
  MAX_DEPTH,
  storeBody,
  storeIds,
  turnId,
  written,
  type AnswerKey,
  type Earlier,
  type FeedbackGiven,
  type TurnCaptured,
} from '@instar/events'
import { constraintOf } from '../../generate/core/constraint.ts'
import { extendsIds } from '../../prompt/core/history.ts'
import { subjectOf } from '../../session/core/labels.ts'
import { bringsResults, kindOf } from '../../session/core/side.ts'
import { digestOf, whyNotTrainable } from '../../capture/core/turn.ts'
import { rewritesUser, userTurnOf } from '@instar/agents'
import { dialectOf, lastAnswer } from '@instar/dialects'
import { whyInexact, type Inexact, type Line } from './exact.ts'
import { composed, type Reading, type Said, type Spoken } from './spoken.ts'

/** Stands for a turn that no version of this line produced. */
const NO_VERSION = -1

type Kept = {
  turn: string
  answer: AnswerKey
  /** Token ids of prompt and answer as recorded, exact or not. */
  told: readonly number[] | null
  exact: boolean
  body: Uint8Array
  bodyDepth: number
  ids: readonly number[]
  idsDepth: number
  leant: boolean
}

/** The session's turns so far. Owned by the importer and changed in place. */
export type SessionSoFar = { kept: Kept[]; hadTools: boolean | null }

export const newSessionSoFar = (): SessionSoFar => ({ kept: [], hadTools: null })

/** Turns that a later one may follow; their contents are in memory. */
const KEPT = 16

export type Made = { turn: TurnCaptured; feedback: FeedbackGiven[]; inexact: Inexact | null }
/** `blob`: must be on the log before the turns. */
export type MadeOf = { made: Made[]; blob: { bytes: Uint8Array; sha256: string } | null }

/**
 * `there`: ids of turns that are on the log; new turns do not share content with them. `now`: the time of records
 * without one.
 */
export const turnsOf = (
  spoken: Spoken,
  so: SessionSoFar,
  line: Line,
  reading: Reading,
  there: (turn: string) => boolean,
  now: number,
): MadeOf => {
  const { request, promptIds, session } = spoken
  const followed = followedBy(spoken, so.kept)
  const { after, stateFrom } = lastAnswer(request.messages)
  const base = followed ?? so.kept.at(-1)
  const body = storeBody(spoken.raw, base?.leant ? leanOn(base.turn, base.body, base.bodyDepth) : null)
  const at = spoken.times.at ?? now
  const finishedAt = Math.max(at, spoken.times.finishedAt ?? at)
  const firstTokenAt = Math.min(finishedAt, Math.max(at, spoken.times.firstTokenAt ?? finishedAt))
  const kind = spoken.kind ?? kindOf(spoken.headers, request, so.hadTools)
  const subject = spoken.subject ?? subjectOf(spoken.user, reading.key, session)
  const constrained = mayHaveBeenConstrained(spoken)
  const contaminated = kind === 'main' && rewritesUser(request.messages)
  const group = spoken.group ?? derivedId('import', 'group', session, spoken.identity).slice(0, 32)
  const kept: Kept[] = []
  const made = spoken.answers.map((said): Made => {
    const inexact = whyInexact(spoken, said, line, reading)
    const exact = inexact === null
    const ids = storeIds(
      exact ? (promptIds ?? []) : [],
      exact && base?.leant && base.exact ? leanOn(base.turn, base.ids, base.idsDepth) : null,
    )
    const text = textOf(spoken, said, exact, reading)
    const reason = whyNotTrainable({
      kind,
      tokens: exact ? 'exact' : 'none',
      inexact,
      constrained,
      contaminated,
      temperature: spoken.sampling.temperature,
      optedOut: spoken.optedOut,
      learning: true,
      text,
      unsampled: !spoken.sampledHere && !reading.unsampled,
    })
    const turn: TurnCaptured = {
      type: 'TurnCaptured',
      finish: said.finish,
      turn: turnOf(spoken, said),
      session,
      policy: reading.policy,
      ...spokeWith(spoken, line),
      group,
      candidate: said.candidate,
      candidates: spoken.candidates,
      dialect: spoken.dialect,
      kind,
      labelSource: spoken.labelSource,
      userTurn: userTurnOf(spoken.headers, spoken.userTurn),
      subject,
      key: reading.key,
      digest: digestOf(request),
      body: body.stored,
      after: followed?.answer ?? after,
      stateFrom,
      prompt: ids.stored,
      sampling: spoken.sampling,
      tokens: exact ? 'exact' : 'none',
      ids: exact ? [...(said.ids ?? [])] : [],
      logprobs: exact ? [...(said.logprobs ?? [])] : [],
      text: written(text),
      toolCallIds: said.callIds,
      answer: answerKey(said.content, said.calls),
      trainable: reason === null,
      reason,
      offPrefix: followed?.told
        ? promptIds === null || !extendsIds(promptIds, followed.told)
        : request.messages.some(({ role }) => role === 'assistant'),
      engine: spoken.engine,
      at,
      firstTokenAt,
      finishedAt,
    }
    kept.push({
      turn: turn.turn,
      answer: turn.answer,
      told: promptIds === null || said.ids === null ? null : [...promptIds, ...said.ids],
      exact,
      leant: !there(turn.turn),
      body: spoken.raw,
      bodyDepth: body.depth,
      ids: exact ? [...(promptIds ?? []), ...turn.ids] : [],
      idsDepth: ids.depth,
    })
    return { turn, inexact, feedback: said.rewards.map((reward) => feedbackOf(turn, reward, finishedAt)) }
  })
  if (kind === 'main') so.hadTools = request.tools.length > 0 || bringsResults(request.messages)
  so.kept = [...so.kept, ...kept].slice(-KEPT)
  return { made, blob: body.stored.blob === null ? null : { bytes: body.middle, sha256: body.stored.blob } }
}

/** The turn's id on this log. */
export const turnOf = ({ session, identity }: Spoken, { turn, candidate }: Said): string =>
  turn ?? turnId(session, derivedId('import', 'turn', session, identity, candidate).slice(0, 32))

/**
 * Log-probs of constrained sampling are not the policy's own. An unsupported constraint may have been applied by the
 * other engine.
 */
const mayHaveBeenConstrained = ({ dialect, request }: Spoken): boolean => {
  try {
    return constraintOf(dialectOf(dialect), request, false) !== null
  } catch (error) {
    if (error instanceof InstarError) return true
    throw error
  }
}

const leanOn = <T>(turn: string, content: T, depth: number): Earlier<T> => ({
  turn,
  content,
  depth: Math.min(depth, MAX_DEPTH),
})

const spokeWith = ({ claim }: Spoken, { versions }: Line): Pick<TurnCaptured, 'version' | 'adapter'> => {
  const adapter = claim?.ours ? versions.get(claim.version) : undefined
  if (!claim || adapter === undefined || (claim.adapter !== undefined && claim.adapter !== adapter))
    return { version: NO_VERSION, adapter: null }
  return { version: claim.version, adapter }
}

/** The sampled text where known, without the stop string; else the parts in the markup of our models. */
const textOf = ({ sampling }: Spoken, said: Said, exact: boolean, { decode }: Reading): string =>
  said.raw ?? (exact && decode && sampling.stop.length === 0 ? decode(said.ids ?? []) : composed(said))

/**
 * The turn that this one follows: by token ids where recorded, the latest turn that is a prefix of the prompt; else by
 * its answer.
 */
const followedBy = ({ promptIds, request }: Spoken, kept: readonly Kept[]): Kept | undefined => {
  const byTokens =
    promptIds === null ? undefined : kept.findLast(({ told }) => told !== null && extendsIds(promptIds, told))
  if (byTokens) return byTokens
  const { after } = lastAnswer(request.messages)
  return after === null
    ? undefined
    : (kept.findLast(({ answer }) => answer.strict === after.strict) ??
        kept.findLast(({ answer }) => answer.loose === after.loose))
}

const feedbackOf = (
  turn: TurnCaptured,
  { id, value, comment, at }: Said['rewards'][number],
  finishedAt: number,
): FeedbackGiven => ({
  type: 'FeedbackGiven',
  id:
    id ??
    derivedId('import', 'feedback', turn.turn, value, comment === null ? '' : JSON.stringify(comment)).slice(0, 32),
  session: turn.session,
  turn: turn.turn,
  value,
  comment: comment === null ? null : written(comment),
  subject: turn.subject,
  key: turn.key,
  at: at ?? finishedAt,
})
