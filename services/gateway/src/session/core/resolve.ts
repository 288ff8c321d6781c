/**
 * Resolves the session of a request: by its label, else by ids that we issued, else by an earlier answer of ours, else
 * by the agent's data in the prompt, else by a new name. Pure functions of the request and the state of `turns`, so
 * that all gateways that have read the same log choose the same session.
 */
import { answerKey, contentText, findAnswer, type AnswerKey, type LabelSource, type TurnState } from '@instar/events'
import { isScriptedAnswer, sessionInMessages } from '@instar/agents'
import { mintedIdsIn, lastAnswer, mintedIdsInText, type Message } from '@instar/dialects'
import type { SessionQuery } from './session-query.ts'
import { COMPARED, later } from './follow.ts'
import { answerName, promptName } from './held-names.ts'
import { fingerprintSession, sessionBesideOther, sessionOfLabel, wholeSession } from './labels.ts'
import { nameFor, turnsNamed } from './names.ts'
import { partsOf, type Overlap } from './overlap.ts'
import { isRepeated } from './repeated.ts'
import { keyOfSession, sessionState, turnsByAnswer, turnsByPrompt, type SessionIndex } from './session-index.ts'

export type Resolved = { session: string; source: LabelSource }
export type Step =
  | { do: 'found'; resolved: Resolved }
  /** The session is not in memory and must be restored. */
  | { do: 'restore'; session: string }
  /** Several turns match: `choose` needs the requests of these. */
  | { do: 'compare'; candidates: TurnState[] }
  | { do: 'unknown' }

/** Minimum length in characters from which equal answers are not a coincidence. */
const TELLING_LENGTH = 80

export const answersOf = (messages: readonly Message[]): SessionQuery['answers'] =>
  messages.flatMap((message, at) => {
    if (message.role !== 'assistant' || isScriptedAnswer(messages, at)) return []
    const key = lastAnswer([message, { role: 'user' }]).after ?? answerKey('', [])
    const text = contentText(message.content)
    return [{ at, key, length: text.trim().length, text }]
  })

/**
 * Sessions in memory or in the snapshot that `locate` may look up, for reading them before. An evicted one is left to the
 * step `restore`.
 */
export const possibleSessions = (index: SessionIndex, asked: SessionQuery): Set<string> => {
  const { key, label, messages, answers, digest, before } = asked
  if (label) return unforgotten(index, [sessionOfLabel(key, label.value)])
  const last = answers.at(-1)
  const named = sessionInMessages(messages)
  const sessions = [
    ...mintedIdsIn(messages).flatMap((minted) => index.byMintedId.get(minted.session) ?? []),
    ...mintedIdsInText(last?.text ?? '').flatMap((minted) => index.byMintedId.get(minted.session) ?? []),
    ...(last ? turnsNamed(index.byLoose, nameFor(key, last.key.loose)).map(({ session }) => session) : []),
    ...[digest, before].flatMap((asks) =>
      asks === null ? [] : turnsNamed(index.byAsked, nameFor(key, asks)).map(({ session }) => session),
    ),
    ...(named === null ? [] : [sessionOfLabel(key, named)]),
  ]
  return unforgotten(index, sessions)
}

const unforgotten = ({ forgotten }: SessionIndex, sessions: readonly string[]): Set<string> =>
  new Set(sessions.filter((session) => !forgotten.has(session)))

/**
 * The names by which turns outside memory are looked up once the index does not settle what the request continues. A label
 * and an issued id need none, and neither does a first request.
 */
export const namesToLookUp = ({ key, label, answers, before }: SessionQuery, resolved: Resolved | null): string[] => {
  const last = answers.at(-1)
  if (label || !last || (resolved !== null && resolved.source !== 'answer')) return []
  return [answerName(nameFor(key, last.key.loose)), ...(before === null ? [] : [promptName(nameFor(key, before))])]
}

/** `found`: by label, issued id, answer or prompt. Otherwise the step that is missing. */
export const locate = (index: SessionIndex, asked: SessionQuery): Step => {
  if (asked.label) {
    const session = labelled(index, asked.key, asked.label.value)
    return index.forgotten.has(session)
      ? { do: 'restore', session }
      : { do: 'found', resolved: { session, source: asked.label.source } }
  }
  for (const minted of [
    ...mintedIdsIn(asked.messages),
    ...mintedIdsInText(asked.answers.at(-1)?.text ?? '').toReversed(),
  ]) {
    const session = index.byMintedId.get(minted.session)
    if (session === undefined) continue
    if (index.forgotten.has(session)) return { do: 'restore', session }
    if (keyOfSession(index, session) === asked.key) return { do: 'found', resolved: { session, source: 'minted' } }
  }
  const candidates = candidatesOf(index, asked)
  if (candidates.length > 0) return { do: 'compare', candidates }
  const named = byPrompt(index, asked)
  if (named !== null)
    return index.forgotten.has(named.session)
      ? { do: 'restore', session: named.session }
      : { do: 'found', resolved: named }
  const session = retriedSession(index, asked)
  return session === null ? { do: 'unknown' } : { do: 'found', resolved: { session, source: 'fingerprint' } }
}

/** A key with an id of its owner's choice may have a session that was named by a request without a key. */
const labelled = (index: SessionIndex, key: string | null, label: string): string => {
  const session = sessionOfLabel(key, label)
  const owner = keyOfSession(index, session)
  return owner === undefined || owner === key ? session : sessionBesideOther(key, label)
}

const byPrompt = (index: SessionIndex, { key, messages }: SessionQuery): Resolved | null => {
  const named = sessionInMessages(messages)
  return named === null ? null : { session: labelled(index, key, named), source: 'prompt' }
}

/** The session that has only this request, and whose answers to it were all interrupted: the client retries it. */
const retriedSession = (index: SessionIndex, asked: SessionQuery): string | null => {
  if (asked.answers.length > 0) return null
  const interrupted = turnsByPrompt(index, asked.key, asked.digest).findLast(
    ({ session, subject }) =>
      (asked.subject === null || subject === asked.subject) &&
      sessionState(index, session)!.turns.every(
        ({ digest, status, closed }) => digest === asked.digest && status === 'aborted' && !closed,
      ),
  )
  return interrupted?.session ?? null
}

/**
 * Whether the state holds what the request continues; if not, the end of the log may hold it. An equal answer is not
 * enough, since other conversations may give it: the request must repeat the turn's whole request and say nothing else before
 * the answer, of the same subject, and the turn must not be continued yet. `overlaps`: of the candidates' requests.
 */
export const settled = (
  index: SessionIndex,
  asked: SessionQuery,
  step: Step,
  overlaps: readonly Overlap[],
): boolean => {
  const last = asked.answers.at(-1)
  if (!last) return true
  if (step.do === 'found') {
    const state = sessionState(index, step.resolved.session)
    return state !== undefined && findAnswer(state, last.key) !== undefined
  }
  if (step.do !== 'compare' || step.candidates.length !== 1) return false
  const { subject, next, closed } = step.candidates[0]!
  const { said, shared } = overlaps[0]!
  if (next !== null || closed || (asked.subject !== null && subject !== asked.subject)) return false
  return said > 0 && shared === said && partsOf(asked.messages.slice(0, last.at)).size === said
}

/**
 * Turns of this key that gave the last answer: those with the same request, and those whose earlier answers agree
 * longest. Most likely first: same request, same subject, not continued, latest.
 */
const candidatesOf = (index: SessionIndex, asked: SessionQuery): TurnState[] => {
  const last = asked.answers.at(-1)
  if (!last) return []
  const turns = turnsByAnswer(index, asked.key, last.key)
  const depth = new Map(turns.map((turn) => [turn, agreement(index, asked, turn)]))
  const longest = Math.max(0, ...depth.values())
  const same = new Set(turns.filter((turn) => isRepeated(index, asked, turn)))
  const priority = (turn: TurnState): number =>
    4 * Number(same.has(turn)) + 2 * Number(turn.subject === asked.subject) + Number(turn.next === null && !turn.closed)
  return turns
    .filter((turn) => same.has(turn) || depth.get(turn) === longest)
    .sort((a, b) => priority(b) - priority(a) || later(a, b))
    .slice(0, COMPARED)
}

/** Answers that are compared with a turn's conversation: a conversation of equal answers has as many candidates. */
const AGREEING = 64

/** How many of the answers before the last one, up to a limit, are in the turn's own conversation. */
const agreement = (index: SessionIndex, { answers }: SessionQuery, turn: TurnState): number => {
  let at: TurnState | undefined = turn
  for (let agreed = 0; ; agreed += 1) {
    const key = answers[answers.length - 2 - agreed]?.key
    at = at.follows ? index.fold.turns.get(at.follows) : undefined
    if (!key || !at || agreed === AGREEING || !sameAnswer(at.answer, key)) return agreed
  }
}

export const sameAnswer = (a: AnswerKey, b: AnswerKey): boolean => a.strict === b.strict || a.loose === b.loose

/**
 * Chooses among several turns that gave the answer. In order of precedence: the request repeats most of the turn's
 * request and omits least of it; the same subject; its continuation was interrupted (this is the retry); not continued
 * yet; the latest. Null if only a short answer agrees. `overlaps`: of the candidates' requests.
 */
export const choose = (
  index: SessionIndex,
  asked: SessionQuery,
  candidates: readonly TurnState[],
  overlaps: readonly Overlap[],
): Resolved | null => {
  const last = asked.answers.at(-1)
  if (!last) return null
  const ranked = candidates
    .map((turn, i) => {
      const { said, shared } = overlaps[i]!
      return {
        turn,
        shared,
        rank: [
          shared,
          shared - said,
          Number(turn.subject === asked.subject),
          Number(wasCut(index, asked, turn)),
          Number(turn.next === null && !turn.closed),
        ],
      }
    })
    .filter(({ turn, shared }) => shared > 0 || agreement(index, asked, turn) > 0 || last.length >= TELLING_LENGTH)
  ranked.sort((a, b) => {
    const at = a.rank.findIndex((value, i) => value !== b.rank[i])
    return at < 0 ? later(a.turn, b.turn) : b.rank[at]! - a.rank[at]!
  })
  const best = ranked[0]
  return best ? { session: best.turn.session, source: 'answer' } : null
}

const wasCut = (index: SessionIndex, asked: SessionQuery, turn: TurnState): boolean =>
  turnsByPrompt(index, asked.key, asked.digest).some(
    ({ session, status }) => session === turn.session && status === 'aborted',
  )

/**
 * Names a conversation that has no turn here: from the agent's data, else from its beginning if it contains answers,
 * else at random.
 */
export const nameUnknown = (index: SessionIndex, asked: SessionQuery, fresh: string): Resolved =>
  byPrompt(index, asked) ?? {
    session: asked.answers.length === 0 ? fresh : fingerprintSession(asked.key, asked.messages),
    source: 'fingerprint',
  }

/**
 * Returns a new session if the request has the same beginning as an earlier conversation but does not repeat all of
 * that conversation's first request (`first`). Many conversations begin with the same few-shot examples, for example
 * aider's.
 */
export const unlessAnother = (asked: SessionQuery, resolved: Resolved, first: readonly unknown[]): Resolved =>
  resolved.source === 'prompt' || partsOf(first).isSubsetOf(partsOf(asked.messages))
    ? resolved
    : { ...resolved, session: wholeSession(asked.key, asked.digest) }
