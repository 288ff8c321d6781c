/** Resolves ids of ours in a body to what they name on the log: an item of an answer, or a whole earlier response. */
import { isFields, parseMintedId, type Dialect, type Fields, type Reference } from '@instar/dialects'
import { InstarError, readWritten, type TurnState } from '@instar/events'
import { parseAnswer } from '@instar/dialects'
import { setImmediate as nextPass } from 'node:timers/promises'
import { parseHeld, withEarlierBody, type EarlierPorts, type Reader } from './earlier-body.ts'
import { keyOfSession, sessionState, type SessionIndex } from './core/session-index.ts'
import { turnOfMinted } from './core/follow.ts'
import type { Tail } from './tail.ts'

/** `bodyLimit`: bytes of a request body, also of one whose references are resolved. */
export type ReferencePorts = EarlierPorts & { index: SessionIndex; tail: Tail; tailWaitMs: number; bodyLimit: number }

/** References of a request; an answer of the gateway has a few items. */
export const MOST_REFERENCES = 32_768
/** So many references are resolved before other requests are served. */
const AT_A_TIME = 256

/**
 * The body with its references resolved, or the body itself without references. Each turn is read once, and other
 * requests are served between two turns. Throws the dialect's error for an id that does not belong to this key,
 * `bad_request` for more than MOST_REFERENCES and `body_too_large`.
 */
export const resolveReferences = async (
  ports: ReferencePorts,
  dialect: Dialect,
  { key, hold, gone: signal }: Reader,
  body: Fields,
): Promise<Fields> => {
  const ids = dialect.references(body)
  if (ids.length === 0) return body
  if (ids.length > MOST_REFERENCES)
    throw new InstarError(
      'bad_request',
      `The request refers to ${ids.length} items; at most ${MOST_REFERENCES} are taken.`,
      { limit: MOST_REFERENCES },
    )
  // The request of an earlier response is continued; of other requests only what their items need is held.
  const continued = dialect.name === 'responses' ? body['previous_response_id'] : ids[0]
  const found = new Map<string, Reference>()
  // An id can be spelled in many ways: what is known of a turn is found by the turn.
  const byName = new Map<string, TurnState>()
  const byTurn = new Map<string, { reference: Reference; size: number }>()
  let bytes = 0
  for (const [at, id] of ids.entries()) {
    if (at % AT_A_TIME === AT_A_TIME - 1) {
      await nextPass()
      signal?.throwIfAborted()
    }
    const name = nameOf(id)
    const turn = byName.get(name) ?? (await turnOfId(ports, key, id))
    let known = turn && byTurn.get(turn.turn)
    if (!known) {
      signal?.throwIfAborted()
      await nextPass()
      const asking = { key, gone: signal, hold: continued === id ? hold : () => undefined }
      const reference = turn && (await referenceTo(ports, turn, asking).catch(undefinedIfGone))
      if (!reference || isWithheld(turn!, reference)) throw dialect.unknownReference(body, id)
      const used = continued === id ? reference : { ...reference, body: ofItems(reference.body) }
      known = { reference: used, size: sizeOf(used) }
      if (continued !== id) hold(2 * (known.size + JSON.stringify(used.body).length))
      byTurn.set(reference.turn, known)
    }
    byName.set(name, turn!)
    if (continued === id && !found.has(id)) bytes += (await ports.reader.record(known.reference.turn)).body.length
    found.set(id, known.reference)
    bytes += known.size
    if (bytes > ports.bodyLimit) throw largerWithItems(ports.bodyLimit)
  }
  return dialect.resolved(body, found)
}

/** A turn that was cut from the log is referred to as one that was never there. */
const undefinedIfGone = (error: unknown): undefined => {
  if (!(error instanceof InstarError) || error.code !== 'unknown_turn') throw error
}

export const largerWithItems = (limit: number): InstarError =>
  new InstarError('body_too_large', `The request is larger than ${limit} bytes with the items that it refers to.`, {
    limit,
  })

/** The same for all ids of a turn, however they are spelled. */
const nameOf = (id: string): string => {
  const minted = parseMintedId(id)
  return minted ? minted.session + minted.turn : id
}

/** What items of an answer need of its request: whether it was stored, and the names of its tools. */
const ofItems = ({ store, tools }: Fields): Fields => ({
  ...(store === false ? { store } : {}),
  ...(Array.isArray(tools) ? { tools: namesOf(tools) } : {}),
})

/** Tools may be of any size: a gateway executes none, and an engine is not told of those that it would execute. */
const namesOf = (tools: readonly unknown[]): Fields[] =>
  tools.filter(isFields).map(({ type, name, tools: inner }) => ({
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof name === 'string' ? { name } : {}),
    ...(Array.isArray(inner) ? { tools: namesOf(inner) } : {}),
  }))

/** Characters of the answer. */
const sizeOf = ({ choice: { shown } }: Reference): number =>
  shown.calls.reduce((sum, { name, arguments: args }) => sum + name.length + args.length, 0) +
  shown.content.length +
  shown.reasoning.length

/**
 * The turn whose response to this key contained the id (an answer's, an item's, a tool call's); undefined for any other
 * id. Waits for the end of the log, since another gateway may have issued it just before.
 */
export const turnOfId = async (
  ports: Pick<ReferencePorts, 'index' | 'tail' | 'tailWaitMs'>,
  key: string | null,
  id: string,
): Promise<TurnState | undefined> =>
  (await known(ports, key, id)) ??
  (parseMintedId(id) !== null && (await ports.tail.turnsWithin(ports.tailWaitMs)) ? known(ports, key, id) : undefined)

const known = async (
  { index, tail }: Pick<ReferencePorts, 'index' | 'tail'>,
  key: string | null,
  id: string,
): Promise<TurnState | undefined> => {
  const mark = parseMintedId(id)
  const session = mark === null ? undefined : index.byMintedId.get(mark.session)
  if (!mark || session === undefined) return undefined
  await tail.ready(session)
  if (keyOfSession(index, session) !== key) return undefined
  const state = sessionState(index, session)
  return state && turnOfMinted(state, [mark.turn])
}

/** Whether the response must not be returned by its id: deleted, or requested with `store: false`. */
export const isWithheld = ({ deleted }: TurnState, { body }: Reference): boolean => deleted || body['store'] === false

export const referenceTo = async (
  ports: EarlierPorts,
  { turn, session }: TurnState,
  asking: Reader,
): Promise<Reference> => {
  const record = await ports.reader.record(turn)
  const { content, reasoning, toolCalls } = parseAnswer(readWritten(record.text))
  return {
    dialect: record.dialect,
    turn,
    session,
    body: await withEarlierBody(ports, turn, asking, (body) => parseHeld(body, asking.hold)),
    choice: {
      shown: { content, reasoning, calls: toolCalls },
      toolCallIds: record.toolCallIds,
      finish: record.type === 'TurnAborted' ? 'stop' : record.finish,
      stop: null,
      tokens: [],
    },
  }
}
