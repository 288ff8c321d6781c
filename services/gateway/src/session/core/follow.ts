/**
 * Finds the turn that a request continues where the last answer differs from the recorded one: by an id of ours in the
 * request, or by the answer's words, as agents of a text protocol send them (answer-in-text.ts). The match is recorded
 * as the answer that the request follows, so that all readers join the same turns.
 */
import { matchingPrefixes, contentText, withoutThought, type SessionState, type TurnState } from '@instar/events'
import { digitsOfTurn, mintedIdsIn, isFields, mintedIdsInText, turnDigits, type MintedId } from '@instar/dialects'
import type { SessionQuery } from './session-query.ts'
import { sessionState, turnsByPrompt, type SessionIndex } from './session-index.ts'
import { extraOf } from './stored-turns.ts'

/** Maximum number of candidates whose requests are compared. */
export const COMPARED = 8

/** Newest first, in the same order on every gateway. */
export const later = (a: TurnState, b: TurnState): number => b.at - a.at || (a.turn < b.turn ? 1 : -1)

type Conversation = Pick<SessionQuery, 'messages' | 'answers'>

/** Ids of ours in the last answer, in the tool results after it and in its text, the last one first. */
export const lastMintedIds = ({ messages, answers }: Conversation): MintedId[] => {
  const last = answers.at(-1)
  return [...mintedIdsIn(messages.slice(last?.at ?? 0)), ...mintedIdsInText(last?.text ?? '').toReversed()]
}

/** The turn of this session that the id names. */
export const followedById = (session: SessionState | undefined, asked: Conversation): TurnState | undefined => {
  if (!session) return undefined
  const ids = lastMintedIds(asked)
  if (ids.length === 0) return undefined
  return turnOfMinted(
    session,
    ids.map(({ turn }) => turn),
  )
}

/** Of the turns of a session that were looked at, the places by the digits of their ids: those from `from` to `to`. */
type Looked = { from: number; to: number; places: Map<string, number> }
const looked = new WeakMap<readonly TurnState[], Looked>()

/**
 * The turn of the first part that names one of the session's. From the last turn on, since a request names late ones, and
 * each turn is looked at once while the session is in memory: the work does not grow with the number of ids or requests.
 */
export const turnOfMinted = (
  { turns }: Pick<SessionState, 'turns'>,
  parts: readonly string[],
): TurnState | undefined => {
  const known = looked.get(turns) ?? { from: turns.length, to: turns.length, places: new Map<string, number>() }
  looked.set(turns, known)
  for (; known.to < turns.length; known.to += 1) known.places.set(digitsOfTurn(turns[known.to]!.turn), known.to)
  for (const part of parts) {
    const digits = turnDigits(part)
    for (; known.from > 0 && !known.places.has(digits); known.from -= 1)
      known.places.set(digitsOfTurn(turns[known.from - 1]!.turn), known.from - 1)
    const place = known.places.get(digits)
    if (place !== undefined) return turns[place]
  }
  return undefined
}

/**
 * Turns with the same prompt as the last answer's whose words begin that answer. A shorter answer of another
 * conversation with the same prompt is not a match while there is a longer one. `session` null: any session. Most
 * likely first. Empty if more turns match than can be compared and all were continued.
 */
export const turnsInside = (index: SessionIndex, asked: SessionQuery, session: string | null): TurnState[] => {
  const last = asked.answers.at(-1)
  if (!last || asked.before === null) return []
  const byWords = new Map<string, TurnState[]>()
  for (const turn of turnsByPrompt(index, asked.key, asked.before)) {
    const extra = extraOf(turn)
    if (turn.kind !== 'main' || !extra?.words) continue
    if (session !== null && turn.session !== session) continue
    const alike = byWords.get(extra.words)
    if (alike) alike.push(turn)
    else byWords.set(extra.words, [turn])
  }
  const [longest] = matchingPrefixes(withoutThought(last.text), new Set(byWords.keys()))
  if (!longest) return []
  const priority = (turn: TurnState): number => 2 * Number(isOpen(turn)) + Number(turn.subject === asked.subject)
  const alike = byWords.get(longest.hash)!.sort((a, b) => priority(b) - priority(a) || later(a, b))
  return alike.length > COMPARED && !isOpen(alike[0]!) ? [] : alike.slice(0, COMPARED)
}

const isOpen = ({ next, closed }: TurnState): boolean => next === null && !closed

/** The chain of turns that continued this one, the last first: an agent may send all their answers in one message. */
export const continuationsOf = (index: SessionIndex, first: TurnState): TurnState[] => {
  const session = sessionState(index, first.session)
  const last: TurnState[] = []
  for (let turn = first; turn.next;) {
    const next = session?.byId.get(turn.next)
    // The next state of a turn is a later turn.
    if (!next || next.place <= turn.place) break
    if (last.unshift(next) > COMPARED) last.pop()
    turn = next
  }
  return last
}

/** The text of the request's messages from this index on. */
export const textFrom = (messages: readonly unknown[], at: number): string =>
  messages
    .slice(at)
    .map((message) => (isFields(message) ? contentText(message['content']) : ''))
    .join('\n')
