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
import { agentNameOf, rewritesUser, userTurnOf } from '@instar/agents'
import { dialectOf, lastAnswer } from '@instar/dialects'
import { whyInexact, type Inexact, type Line } from './exact.ts'
import { composed, type Reading, type ImportedAnswer, type ImportedRequest } from './imported-request.ts'

/** Stands for a turn that no version of this line produced. */
const NO_VERSION = -1

type RecentTurn = {
  turn: string
  answer: AnswerKey
  /** Token ids of prompt and answer as recorded, exact or not. */
  recordedIds: readonly number[] | null
  exact: boolean
  body: Uint8Array
  bodyDepth: number
  ids: readonly number[]
  idsDepth: number
  leant: boolean
}

/** The session's turns so far. Owned by the importer and changed in place. */
export type SessionSoFar = { recent: RecentTurn[]; hadTools: boolean | null }

export const newSessionSoFar = (): SessionSoFar => ({ recent: [], hadTools: null })

/** Turns that a later one may follow; their contents are in memory. */
const MAX_RECENT_TURNS = 16

type Made = { turn: TurnCaptured; feedback: FeedbackGiven[]; inexact: Inexact | null }
/** `blob`: must be on the log before the turns. */
type MadeOf = { made: Made[]; blob: { bytes: Uint8Array; sha256: string } | null }

/**
 * `there`: ids of turns that are on the log; new turns do not share content with them. `now`: the time of records
 * without one, and the latest of all.
 */
export const turnsOf = (
  imported: ImportedRequest,
  so: SessionSoFar,
  line: Line,
  reading: Reading,
  there: (turn: string) => boolean,
  now: number,
): MadeOf => {
  const { request, promptIds, session } = imported
  const followed = followedBy(imported, so.recent)
  const { after, stateFrom } = lastAnswer(request.messages)
  const base = followed ?? so.recent.at(-1)
  const body = storeBody(imported.raw, base?.leant ? leanOn(base.turn, base.body, base.bodyDepth) : null)
  // A time of the future would count its key as active, and its turn as the newest, until it comes.
  const at = Math.min(imported.times.at ?? now, now)
  const finishedAt = Math.max(at, Math.min(imported.times.finishedAt ?? at, now))
  const firstTokenAt = Math.min(finishedAt, Math.max(at, imported.times.firstTokenAt ?? finishedAt))
  const kind = imported.kind ?? kindOf(imported.headers, request, so.hadTools)
  const subject = imported.subject ?? subjectOf(imported.user, reading.key, session)
  const constrained = mayHaveBeenConstrained(imported)
  const contaminated = kind === 'main' && rewritesUser(request.messages)
  const group = imported.group ?? derivedId('import', 'group', session, imported.identity).slice(0, 32)
  const recent: RecentTurn[] = []
  const made = imported.answers.map((said): Made => {
    const inexact = whyInexact(imported, said, line, reading)
    const exact = inexact === null
    const ids = storeIds(
      exact ? (promptIds ?? []) : [],
      exact && base?.leant && base.exact ? leanOn(base.turn, base.ids, base.idsDepth) : null,
    )
    const text = textOf(imported, said, exact, reading)
    const reason = whyNotTrainable({
      kind,
      tokens: exact ? 'exact' : 'none',
      inexact,
      constrained,
      contaminated,
      temperature: imported.sampling.temperature,
      optedOut: imported.optedOut,
      learning: true,
      text,
      unsampled: !imported.sampledHere && !reading.unsampled,
    })
    const turn: TurnCaptured = {
      type: 'TurnCaptured',
      finish: said.finish,
      turn: turnOf(imported, said),
      session,
      policy: reading.policy,
      ...versionOf(imported, line),
      group,
      candidate: said.candidate,
      candidates: imported.candidates,
      dialect: imported.dialect,
      kind,
      labelSource: imported.labelSource,
      userTurn: userTurnOf(imported.headers, imported.userTurn),
      agent: agentOf(imported),
      subject,
      key: reading.key,
      digest: digestOf(request),
      body: body.stored,
      after: followed?.answer ?? after,
      stateFrom,
      prompt: ids.stored,
      sampling: imported.sampling,
      tokens: exact ? 'exact' : 'none',
      ids: exact ? [...(said.ids ?? [])] : [],
      logprobs: exact ? [...(said.logprobs ?? [])] : [],
      text: written(text),
      toolCallIds: said.callIds,
      answer: answerKey(said.content, said.calls),
      trainable: reason === null,
      reason,
      task: imported.episode.task,
      offPrefix: followed?.recordedIds
        ? promptIds === null || !extendsIds(promptIds, followed.recordedIds)
        : request.messages.some(({ role }) => role === 'assistant'),
      engine: imported.engine,
      at,
      firstTokenAt,
      finishedAt,
    }
    recent.push({
      turn: turn.turn,
      answer: turn.answer,
      recordedIds: promptIds === null || said.ids === null ? null : [...promptIds, ...said.ids],
      exact,
      leant: !there(turn.turn),
      body: imported.raw,
      bodyDepth: body.depth,
      ids: exact ? [...(promptIds ?? []), ...turn.ids] : [],
      idsDepth: ids.depth,
    })
    return {
      turn,
      inexact,
      feedback: said.rewards.map((reward) => feedbackOf(turn, reward, Math.min(reward.at ?? finishedAt, now))),
    }
  })
  if (kind === 'main') so.hadTools = request.tools.length > 0 || bringsResults(request.messages)
  so.recent = [...so.recent, ...recent].slice(-MAX_RECENT_TURNS)
  return { made, blob: body.stored.blob === null ? null : { bytes: body.middle, sha256: body.stored.blob } }
}

/** The agent that the file names, or that recorded headers tell; null: neither. */
const agentOf = ({ agent, headers, request }: ImportedRequest): string | null =>
  agent ?? (Object.keys(headers).length === 0 ? null : agentNameOf(headers, request.messages))

/** The turn's id on this log. */
export const turnOf = ({ session, identity }: ImportedRequest, { turn, candidate }: ImportedAnswer): string =>
  turn ?? turnId(session, derivedId('import', 'turn', session, identity, candidate).slice(0, 32))

/**
 * Log-probs of constrained sampling are not the policy's own. An unsupported constraint may have been applied by the
 * other engine.
 */
const mayHaveBeenConstrained = ({ dialect, request }: ImportedRequest): boolean => {
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

const versionOf = ({ claim }: ImportedRequest, { versions }: Line): Pick<TurnCaptured, 'version' | 'adapter'> => {
  const adapter = claim?.ours ? versions.get(claim.version) : undefined
  if (!claim || adapter === undefined || (claim.adapter !== undefined && claim.adapter !== adapter))
    return { version: NO_VERSION, adapter: null }
  return { version: claim.version, adapter }
}

/** The sampled text where known, without the stop string; else the parts in the markup of our models. */
const textOf = ({ sampling }: ImportedRequest, said: ImportedAnswer, exact: boolean, { decode }: Reading): string =>
  said.raw ?? (exact && decode && sampling.stop.length === 0 ? decode(said.ids ?? []) : composed(said))

/**
 * The turn that this one follows: by token ids where recorded, the latest turn that is a prefix of the prompt; else by
 * its answer.
 */
const followedBy = ({ promptIds, request }: ImportedRequest, recent: readonly RecentTurn[]): RecentTurn | undefined => {
  const byTokens =
    promptIds === null
      ? undefined
      : recent.findLast(({ recordedIds }) => recordedIds !== null && extendsIds(promptIds, recordedIds))
  if (byTokens) return byTokens
  const { after } = lastAnswer(request.messages)
  return after === null
    ? undefined
    : (recent.findLast(({ answer }) => answer.strict === after.strict) ??
        recent.findLast(({ answer }) => answer.loose === after.loose))
}

const feedbackOf = (
  turn: TurnCaptured,
  { id, value, comment }: ImportedAnswer['rewards'][number],
  at: number,
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
  at,
})
