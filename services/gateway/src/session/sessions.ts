/** Finds the session of a request. Reads the log where the index is not sufficient. */
import { textAfterAnswer, contentOfAnswer, readWritten, type InstarError, type TurnState } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { dialectOf } from '@instar/dialects'
import { followedById, continuationsOf, lastMintedIds, textFrom, turnsInside } from './core/follow.ts'
import { recognise } from '../prompt/core/history.ts'
import {
  choose,
  locate,
  namesToLookUp,
  nameUnknown,
  possibleSessions,
  settled,
  unlessAnother,
  type Resolved,
} from './core/resolve.ts'
import { overlapWith, type Overlap } from './core/overlap.ts'
import { withoutRequests } from './core/repeated.ts'
import type { SessionQuery } from './core/session-query.ts'
import { sessionState, touch, type SessionIndex } from './core/session-index.ts'
import {
  holdingDuring,
  parseHeld,
  readForSession,
  withEarlierBody,
  type EarlierPorts,
  type Reader,
  type SessionReader,
} from './earlier-body.ts'
import { SHOWN_WITHIN_MS, type Tail } from './tail.ts'

type SessionPorts = EarlierPorts & { index: SessionIndex; tail: Tail; tailWaitMs: number }

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

/** `fresh`: the name for a new session. `request` holds what is read for it until it is compared. */
export const resolveSession = async (
  ports: SessionPorts,
  asked: SessionQuery,
  fresh: string,
  request: Reader,
): Promise<ResolvedSession> => {
  const { index, tail } = ports
  const missed: InstarError[] = []
  const asking: SessionReader = { ...request, missed: (error) => void missed.push(error) }
  let { resolved, whole } = await located(ports, asked, asking)
  if (!whole || lacksLater(index, asked, resolved)) {
    const isRead = await tail.turnsWithin(ports.tailWaitMs)
    const isBroughtBack = await broughtBack(ports, namesToLookUp(asked, resolved))
    if (isRead || isBroughtBack) {
      missed.length = 0
      resolved = (await located(ports, asked, asking)).resolved
    }
    whole = isRead
  }
  // Words are compared only if the whole session is known: another turn may match more of them.
  const wanted = whole && !isKnown(index, asked, resolved)
  const missedBefore = missed.length
  const inside = wanted ? await insideText(ports, asked, resolved?.session ?? null, asking) : undefined
  if (inside && missed.length === missedBefore) resolved ??= { session: inside.turn.session, source: 'answer' }
  if (!resolved) {
    throwFirst(missed)
    resolved = await nameOf(ports, asked, fresh, asking)
    throwFirst(missed)
  }
  await tail.ready(resolved.session)
  touch(index, resolved.session)
  const state = sessionState(index, resolved.session)
  const turns = recognise(state, asked.answers)
  const named = turns.at(-1) ?? followedById(state, asked)
  const agentAddedText = !named && inside !== undefined && inside.textAfter !== ''
  return { ...resolved, turns, follows: named ?? inside?.turn, agentAddedText }
}

/**
 * Of a request with a label, without answers and tools, only the turns of its session tell whether it is a side request: the first
 * of them may have been answered just before.
 */
export const readSession = async (
  { index, tail, tailWaitMs }: Pick<SessionPorts, 'index' | 'tail' | 'tailWaitMs'>,
  { label, answers }: SessionQuery,
  session: string,
  hasTools: boolean,
): Promise<void> => {
  if (!label || answers.length > 0 || hasTools || sessionState(index, session)) return
  if (await tail.turnsWithin(Math.min(tailWaitMs, SHOWN_WITHIN_MS))) await tail.ready(session)
}

const throwFirst = ([error]: readonly InstarError[]): void => {
  if (error) throw error
}

/** Makes sessions with these names known in memory again, as after a turn of theirs. False if there are none. */
const broughtBack = async ({ index, tail }: SessionPorts, wanted: readonly string[]): Promise<boolean> => {
  const found = wanted.length > 0 && index.held ? await index.held.find(wanted) : []
  const away = found.filter((session) => !index.recent.has(session))
  for (const session of away) {
    await tail.ready(session)
    touch(index, session)
  }
  return away.length > 0
}

/** Whether the session holds what the request continues, as an answer or by an id. */
const isKnown = (index: SessionIndex, asked: SessionQuery, resolved: Resolved | null): boolean => {
  const state = resolved === null ? undefined : sessionState(index, resolved.session)
  return recognise(state, asked.answers).at(-1) !== undefined || followedById(state, asked) !== undefined
}

/**
 * Whether the session lacks a later turn with the answer of an earlier one: two answers are one turn here, or the id of the last
 * answer is none of its turns.
 */
const lacksLater = (index: SessionIndex, asked: SessionQuery, resolved: Resolved | null): boolean => {
  const { answers } = asked
  if (resolved === null) return false
  const isRepeating = new Set(answers.map(({ key }) => key.loose)).size < answers.length
  const isNamed = lastMintedIds(asked).length > 0
  if (!isRepeating && !isNamed) return false
  const state = sessionState(index, resolved.session)
  if (isNamed && !followedById(state, asked)) return true
  const known = recognise(state, answers).filter((turn) => turn !== undefined)
  return new Set(known).size < known.length
}

/** The turn whose answer is inside the text of the last one, with the least text of the agent after it. */
const insideText = async (
  ports: SessionPorts,
  asked: SessionQuery,
  session: string | null,
  asking: SessionReader,
): Promise<Inside | undefined> => {
  const { index, reader } = ports
  const last = asked.answers.at(-1)
  if (!last) return undefined
  const firsts = turnsInside(index, asked, session)
  let best: Inside | undefined
  for (const first of firsts) {
    for (const turn of [...continuationsOf(index, first), first]) {
      const content = await contentOf(reader, turn.turn, asking)
      const textAfter = await withMessages(ports, turn.turn, asking, (messages) =>
        textAfterAnswer(last.text, textFrom(messages, last.at), content),
      )
      if (textAfter === null) continue
      if (!best || textAfter.length < best.textAfter.length) best = { turn, textAfter }
      break
    }
  }
  return best
}

/** The content of an earlier turn's answer; '' if its record cannot be read any more. */
const contentOf = (reader: TurnReader, turn: string, asking: SessionReader): Promise<string> =>
  readForSession(asking, '', async () => contentOfAnswer(readWritten((await reader.record(turn)).text)))

/** Names a conversation that has no turn here. */
const nameOf = async (
  ports: SessionPorts,
  asked: SessionQuery,
  fresh: string,
  asking: SessionReader,
): Promise<Resolved> => {
  const { index, tail } = ports
  const resolved = nameUnknown(index, asked, fresh)
  await tail.ready(resolved.session)
  const first = sessionState(index, resolved.session)?.turns[0]
  if (!first) return resolved
  return withMessages(ports, first.turn, asking, (messages) => unlessAnother(asked, resolved, messages))
}

/** `whole`: as `settled`. */
type Located = { resolved: Resolved | null; whole: boolean }

const located = async (ports: SessionPorts, asked: SessionQuery, asking: SessionReader): Promise<Located> => {
  for (const session of possibleSessions(ports.index, asked)) await ports.tail.ready(session)
  let step = locate(ports.index, asked)
  if (step.do === 'restore') {
    await ports.tail.ready(step.session)
    step = locate(ports.index, asked)
  }
  const { index } = ports
  if (step.do !== 'compare')
    return { resolved: step.do === 'found' ? step.resolved : null, whole: settled(index, asked, step, []) }
  const { candidates } = step
  let isMissed = false
  const missed = (error: InstarError): void => {
    isMissed = true
    asking.missed(error)
  }
  const overlaps = await compared(ports, asked, candidates, { ...asking, missed })
  const among = isMissed ? withoutRequests(index, asked, candidates) : candidates
  const own = among.map((turn) => overlaps[candidates.indexOf(turn)]!)
  return { resolved: choose(index, asked, among, own), whole: settled(index, asked, step, overlaps) }
}

/** How each turn's request compares with the asked one. Large ones are read one after the other, and equal ones once. */
const compared = async (
  ports: EarlierPorts,
  asked: SessionQuery,
  turns: readonly TurnState[],
  asking: SessionReader,
): Promise<Overlap[]> => {
  const overlapOf = overlapWith(asked)
  const known = new Map<string, Overlap>()
  const overlaps: Overlap[] = []
  for (const { turn } of turns) {
    const sha256 = await readForSession(asking, '', async () => (await ports.reader.record(turn)).body.sha256)
    const overlap = known.get(sha256) ?? (await withMessages(ports, turn, asking, overlapOf))
    if (sha256 !== '') known.set(sha256, overlap)
    overlaps.push(overlap)
  }
  return overlaps
}

/** What `use` makes of the messages of an earlier request, which are held until then; none if its body cannot be read any more. */
const withMessages = async <T>(
  ports: EarlierPorts,
  turn: string,
  asking: SessionReader,
  use: (messages: readonly unknown[]) => T,
): Promise<T> => {
  const read = await readForSession<{ made: T } | null>(asking, null, () =>
    holdingDuring(asking, (own) =>
      withEarlierBody(ports, turn, own, (body, { dialect }) => ({
        made: use(dialectOf(dialect).messages(parseHeld(body, own.hold))),
      })),
    ),
  )
  return read ? read.made : use([])
}
