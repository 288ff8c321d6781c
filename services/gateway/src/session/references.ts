/** Resolves ids of ours in a body to what they name on the log: an item of an answer, or a whole earlier response. */
import { parseMintedId, turnIdPart, parseJson, type Dialect, type Fields, type Reference } from '@instar/dialects'
import { readWritten, type TurnState } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { parseAnswer } from '@instar/dialects'
import { keyOfSession, sessionState, type SessionIndex } from './core/session-index.ts'
import type { Tail } from './tail.ts'

export type ReferencePorts = { index: SessionIndex; tail: Tail; reader: TurnReader; tailWaitMs: number }

/**
 * The body with its references resolved, or the body itself without references. Throws the dialect's error for an id
 * that does not belong to this key.
 */
export const resolveReferences = async (
  ports: ReferencePorts,
  dialect: Dialect,
  key: string | null,
  body: Fields,
): Promise<Fields> => {
  const ids = dialect.references(body)
  if (ids.length === 0) return body
  const found = new Map<string, Reference>()
  for (const id of ids) {
    const turn = await turnOfId(ports, key, id)
    const reference = turn && (await referenceTo(ports.reader, turn))
    if (!reference || isWithheld(turn, reference)) throw dialect.unknownReference(body, id)
    found.set(id, reference)
  }
  return dialect.resolved(body, found)
}

/**
 * The turn whose response to this key contained the id (an answer's, an item's, a tool call's); undefined for any other
 * id. Waits for the end of the log, since another gateway may have issued it just before.
 */
export const turnOfId = async (
  ports: Omit<ReferencePorts, 'reader'>,
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
  if (index.forgotten.has(session)) await tail.restore(session)
  if (keyOfSession(index, session) !== key) return undefined
  return sessionState(index, session)?.turns.find(({ turn }) => turnIdPart(turn) === mark.turn)
}

/** Whether the response must not be returned by its id: deleted, or requested with `store: false`. */
export const isWithheld = ({ deleted }: TurnState, { body }: Reference): boolean => deleted || body['store'] === false

export const referenceTo = async (reader: TurnReader, { turn, session }: TurnState): Promise<Reference> => {
  const record = await reader.record(turn)
  const { content, reasoning, toolCalls } = parseAnswer(readWritten(record.text))
  return {
    dialect: record.dialect,
    turn,
    session,
    body: parseJson(await reader.body(turn)),
    choice: {
      shown: { content, reasoning, calls: toolCalls },
      toolCallIds: record.toolCallIds,
      finish: record.type === 'TurnAborted' ? 'stop' : record.finish,
      stop: null,
      tokens: [],
    },
  }
}
