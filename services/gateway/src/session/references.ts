/** Ids of ours in a body, and what they stand for on the log: an answer's item, or a whole earlier response. */
import { readId, turnMark, parseJson, type Dialect, type Fields, type Reference } from '@instar/dialects'
import { readWritten, type TurnState } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { parseAnswer } from '@instar/dialects'
import { keyOfSession, sessionState, type SessionIndex } from './core/session-index.ts'
import type { Tail } from './tail.ts'

export type ReferencePorts = { index: SessionIndex; tail: Tail; reader: TurnReader; tailWaitMs: number }

/** The body with its references resolved; the body itself where it has none. Throws what the dialect says of one that is not this key's. */
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
 * The turn that gave an id of ours (an answer's, an item's, a tool call's) to this key; undefined for any other id. Another
 * gateway may have given it a moment ago: then the end of the log is waited for.
 */
export const turnOfId = async (
  ports: Omit<ReferencePorts, 'reader'>,
  key: string | null,
  id: string,
): Promise<TurnState | undefined> =>
  (await known(ports, key, id)) ??
  (readId(id) !== null && (await ports.tail.turnsWithin(ports.tailWaitMs)) ? known(ports, key, id) : undefined)

const known = async (
  { index, tail }: Pick<ReferencePorts, 'index' | 'tail'>,
  key: string | null,
  id: string,
): Promise<TurnState | undefined> => {
  const mark = readId(id)
  const session = mark === null ? undefined : index.byMark.get(mark.session)
  if (!mark || session === undefined) return undefined
  if (index.forgotten.has(session)) await tail.restore(session)
  if (keyOfSession(index, session) !== key) return undefined
  return sessionState(index, session)?.turns.find(({ turn }) => turnMark(turn) === mark.turn)
}

/** Whether its client does not want it to be given by its id: deleted, or asked for with `store: false`. */
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
