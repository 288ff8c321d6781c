/** Finds the session of a request. Reads the log where the index is not sufficient. */
import { textAfterAnswer, contentOfAnswer, InstarError, readWritten, type TurnState } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { dialectOf, parseJson } from '@instar/dialects'
import { followedById, continuationsOf, textFrom, turnsInside } from './core/follow.ts'
import { recognise } from '../prompt/core/history.ts'
import {
  choose,
  locate,
  nameUnknown,
  possibleSessions,
  settled,
  unlessAnother,
  type Resolved,
  type Step,
} from './core/resolve.ts'
import type { SessionQuery } from './core/session-query.ts'
import { sessionState, touch, type SessionIndex } from './core/session-index.ts'
import type { Tail } from './tail.ts'

type SessionPorts = { index: SessionIndex; tail: Tail; reader: TurnReader; tailWaitMs: number }

/**
 * `turns`: the turns of the request's answers, where they match; `follows`: the turn that the request continues;
 * `agentAddedText`: whether the agent added text, such as a tool's result, after that turn's answer in the same message.
 */
type ResolvedSession = Resolved & {
  turns: (TurnState | undefined)[]
  follows: TurnState | undefined
  agentAddedText: boolean
}

/** A turn whose answer is inside the text of the request's last answer. `textAfter`: the agent's text after it. */
type Inside = { turn: TurnState; textAfter: string }

/** `fresh`: the name for a new session. */
export const resolveSession = async (
  ports: SessionPorts,
  asked: SessionQuery,
  fresh: string,
): Promise<ResolvedSession> => {
  const { index, tail } = ports
  let found = await located(ports, asked)
  let whole = settled(index, asked, found.step, found.requests)
  if (!whole && (await tail.turnsWithin(ports.tailWaitMs))) {
    found = await located(ports, asked)
    whole = true
  }
  let resolved = decided(index, asked, found)
  // Words are compared only if the whole session is known: another turn may match more of them.
  const wanted = whole && !isKnown(index, asked, resolved)
  const inside = wanted ? await insideText(ports, asked, resolved?.session ?? null) : undefined
  resolved ??= inside ? { session: inside.turn.session, source: 'answer' } : await nameOf(ports, asked, fresh)
  await tail.ready(resolved.session)
  touch(index, resolved.session)
  const state = sessionState(index, resolved.session)
  const turns = recognise(state, asked.answers)
  const named = turns.at(-1) ?? followedById(state, asked)
  const agentAddedText = !named && inside !== undefined && inside.textAfter !== ''
  return { ...resolved, turns, follows: named ?? inside?.turn, agentAddedText }
}

/** Whether the session holds what the request continues, as an answer or by an id. */
const isKnown = (index: SessionIndex, asked: SessionQuery, resolved: Resolved | null): boolean => {
  const state = resolved === null ? undefined : sessionState(index, resolved.session)
  return recognise(state, asked.answers).at(-1) !== undefined || followedById(state, asked) !== undefined
}

/** The turn whose answer is inside the text of the last one, with the least text of the agent after it. */
const insideText = async (
  ports: SessionPorts,
  asked: SessionQuery,
  session: string | null,
): Promise<Inside | undefined> => {
  const { index, reader } = ports
  const last = asked.answers.at(-1)
  if (!last) return undefined
  const firsts = turnsInside(index, asked, session)
  let best: Inside | undefined
  for (const first of firsts) {
    for (const turn of [...continuationsOf(index, first), first]) {
      const held = textFrom(await messagesOf(reader, turn.turn), last.at)
      const textAfter = textAfterAnswer(last.text, held, await contentOf(reader, turn.turn))
      if (textAfter === null) continue
      if (!best || textAfter.length < best.textAfter.length) best = { turn, textAfter }
      break
    }
  }
  return best
}

/** The content of an earlier turn's answer; '' if its record cannot be read any more. */
const contentOf = async (reader: TurnReader, turn: string): Promise<string> => {
  try {
    return contentOfAnswer(readWritten((await reader.record(turn)).text))
  } catch (error) {
    if (error instanceof InstarError) return ''
    throw error
  }
}

/** Names a conversation that has no turn here. */
const nameOf = async ({ index, tail, reader }: SessionPorts, asked: SessionQuery, fresh: string): Promise<Resolved> => {
  const resolved = nameUnknown(index, asked, fresh)
  await tail.ready(resolved.session)
  const first = sessionState(index, resolved.session)?.turns[0]
  return first ? unlessAnother(asked, resolved, await messagesOf(reader, first.turn)) : resolved
}

/** `requests`: the messages of each candidate's request. */
type Located = { step: Step; requests: readonly (readonly unknown[])[] }

const located = async (ports: SessionPorts, asked: SessionQuery): Promise<Located> => {
  for (const session of possibleSessions(ports.index, asked)) await ports.tail.ready(session)
  let step = locate(ports.index, asked)
  if (step.do === 'restore') {
    await ports.tail.ready(step.session)
    step = locate(ports.index, asked)
  }
  const requests =
    step.do === 'compare' ? await Promise.all(step.candidates.map(({ turn }) => messagesOf(ports.reader, turn))) : []
  return { step, requests }
}

const decided = (index: SessionIndex, asked: SessionQuery, { step, requests }: Located): Resolved | null => {
  if (step.do === 'found') return step.resolved
  return step.do === 'compare' ? choose(index, asked, step.candidates, requests) : null
}

/** The messages of an earlier request; empty if its body cannot be read any more. */
const messagesOf = async (reader: TurnReader, turn: string): Promise<readonly unknown[]> => {
  try {
    return dialectOf((await reader.record(turn)).dialect).messages(parseJson(await reader.body(turn)))
  } catch (error) {
    if (error instanceof InstarError) return []
    throw error
  }
}
