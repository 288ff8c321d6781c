/** Texts of many turns: a search in the newest, and the export of a session. Each turn is read by its position on the log. */
import { InstarError } from '@instar/events'
import { TURN_FAULTS } from '@instar/log'
import { exportTurn } from '../import/exported-turn.ts'
import type { SessionIndex } from '../session/core/session-index.ts'
import { turnText, type Read, type TextPorts } from './turn-view.ts'

type TextsPorts = {
  index: Pick<SessionIndex, 'recent' | 'fold'>
  text: TextPorts
  read: Read
  /** Milliseconds. */
  monotonic: () => number
}

/** Turns that one search reads, those of one session, and the time and the hits after which it ends, in milliseconds. */
export const SEARCHED = 2_000
const OF_SESSION = 200
const SEARCH_MS = 4_000
const MOST_HITS = 50
/** Characters before and after what was found. */
const AROUND = 80

type Hit = { session_id: string; turn_id: string; who: string; before: string; match: string; after: string }
/** `next`: where an older search begins; null: the gateway's index has no older turns. */
type Found = { hits: Hit[]; searched: number; next: End | null }
/** The last session of a search, and when it was touched. */
type End = { at: number; id: string }
type Place = { session: string; turn: string; at: number }

/**
 * Turns of the sessions that were touched last, newest first, the newest of each: at most `most` beyond the last session.
 * `from`: the session with which an earlier search ended; those before it are left out.
 */
const newestTurns = (
  { recent }: TextsPorts['index'],
  from: End | null,
  most: number,
  ofSession = OF_SESSION,
): Place[] => {
  const places: Place[] = []
  // One that was touched since then is at the front now, and its time tells where the others go on.
  const stays = from !== null && recent.get(from.id)?.at === from.at
  let begun = from === null
  for (const [session, { at, turns }] of recent.newestFirst()) {
    if (!begun) {
      begun = stays ? session === from!.id : at < from!.at
      if (stays || !begun) continue
    }
    if (places.length >= most) break
    for (const { turn } of turns.slice(-ofSession).reverse()) places.push({ session, turn, at })
  }
  return places
}

const hitIn = (text: string, query: string): Pick<Hit, 'before' | 'match' | 'after'> | null => {
  const at = text.toLowerCase().indexOf(query)
  if (at < 0) return null
  const end = at + query.length
  return {
    before: text.slice(Math.max(0, at - AROUND), at),
    match: text.slice(at, end),
    after: text.slice(end, end + AROUND),
  }
}

/** The first place in what is new in a turn's request, or in its answer. */
const hitOf = async (text: TextPorts, { session, turn }: Place, query: string): Promise<Hit | null> => {
  const { messages, answer } = await turnText(text, turn)
  const said = [
    ...messages.flatMap(({ role, content, calls }) => [
      { who: role, of: content.text },
      ...calls.map(({ name, input }) => ({ who: role, of: `${name} ${input.text}` })),
    ]),
    { who: 'assistant', of: answer.text },
  ]
  for (const { who, of } of said) {
    const hit = hitIn(of, query)
    if (hit) return { session_id: session, turn_id: turn, who, ...hit }
  }
  return null
}

/** A turn whose record is damaged or forgotten is left out. */
const unreadable = (error: unknown): null => {
  if (error instanceof InstarError && TURN_FAULTS.some((code) => code === error.code)) return null
  throw error
}

/** Without regard to case. Ends after `SEARCHED` turns, `SEARCH_MS`, or `MOST_HITS` hits. Throws `overloaded`, `aborted`. */
export const searchTexts = async (
  { index, text, read, monotonic }: TextsPorts,
  given: string,
  from: End | null,
): Promise<Found> => {
  const query = given.toLowerCase()
  const places = newestTurns(index, from, SEARCHED)
  const until = monotonic() + SEARCH_MS
  const hits: Hit[] = []
  let searched = 0
  for (const [i, place] of places.entries()) {
    const whole = place.session !== places[i - 1]?.session
    // A further search begins with a session that this one has not begun.
    if (whole && i > 0 && (hits.length >= MOST_HITS || monotonic() > until)) {
      const { session, at } = places[i - 1]!
      return { hits, searched, next: { at, id: session } }
    }
    searched += 1
    const hit = await read(() => hitOf(text, place, query)).catch(unreadable)
    if (hit) hits.push(hit)
  }
  const last = places.at(-1)
  return {
    hits,
    searched,
    next:
      last && newestTurns(index, { at: last.at, id: last.session }, 1).length > 0
        ? { at: last.at, id: last.session }
        : null,
  }
}

/** A turn that the page Compare may ask again. `asked`: the beginning of what the person said last. */
type AskedTurn = { turn_id: string; session_id: string; at: string; asked: string }
/** Turns of one answer of `newestPrompts`, of one session, and characters of each. */
const PROMPTS = 20
const PROMPTS_OF_SESSION = 3
const ASKED = 160

/** The newest turns of conversations, of each session the last few. Throws `overloaded`, `aborted`. */
export const newestPrompts = async (
  { index, text, read }: Omit<TextsPorts, 'monotonic'>,
  from: End | null,
): Promise<{ rows: AskedTurn[]; next: End | null }> => {
  const places = newestTurns(index, from, PROMPTS, PROMPTS_OF_SESSION)
  const rows: AskedTurn[] = []
  for (const { session, turn } of places) {
    await text.tail.ready(session)
    const state = index.fold.turns.get(turn)
    if (state?.kind !== 'main' || !state.shown) continue
    const said = await read(() => turnText(text, turn)).catch(unreadable)
    const asked = said?.messages.findLast(({ role }) => role === 'user')?.content.text
    if (asked === undefined) continue
    rows.push({
      turn_id: turn,
      session_id: session,
      at: new Date(state.at).toISOString(),
      asked: asked.slice(0, ASKED),
    })
  }
  const last = places.at(-1)
  const end = last ? { at: last.at, id: last.session } : null
  return { rows, next: end && newestTurns(index, end, 1).length > 0 ? end : null }
}

/** Sessions whose beginnings one request reads. */
export const BEGINNINGS = 50

/** By session, the beginning of what its first turn asks; sessions that the gateway's index has not are left out. */
export const beginnings = async (
  { index, text, read }: Omit<TextsPorts, 'monotonic'>,
  sessions: readonly string[],
): Promise<Record<string, string>> => {
  const found: Record<string, string> = {}
  for (const session of sessions) {
    await text.tail.ready(session)
    const first = index.fold.sessions.get(session)?.turns.find(({ kind }) => kind === 'main')
    if (!first) continue
    const said = await read(() => turnText(text, first.turn)).catch(unreadable)
    const asked = said?.messages.findLast(({ role }) => role === 'user')?.content.text
    if (asked !== undefined) found[session] = asked.slice(0, ASKED)
  }
  return found
}

/** Lines that `instar import` reads: the complete answers of a session that were sent. Throws `unknown_turn`. */
export const exportedSession = async (
  { index, text, read }: Pick<TextsPorts, 'index' | 'text' | 'read'>,
  id: string,
): Promise<AsyncGenerator<string>> => {
  await text.tail.ready(id)
  const session = index.fold.sessions.get(id)
  if (!session || session.turns.length === 0)
    throw new InstarError(
      'unknown_turn',
      'The gateway’s index has no such session; `instar export` reads the whole log.',
    )
  const shown = session.turns.filter((turn) => turn.status !== 'aborted' && turn.shown)
  return (async function* () {
    for (const turn of shown) yield `${JSON.stringify(await read(() => exportTurn(text.reader, turn, session)))}\n`
  })()
}
