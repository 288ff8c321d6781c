/** Stored responses, by id: read from the log, for the key that requested them. */
import {
  DIALECTS,
  itemPage,
  parseMintedId,
  turnIdPart,
  wrong,
  type Fields,
  type ItemPage,
  type AnswerContext,
} from '@instar/dialects'
import { InstarError, readWritten, type ResponseDeleted, type TurnAborted, type TurnCaptured } from '@instar/events'
import type { Model } from '@instar/engine/port'
import type { Capture } from '../capture/capture.ts'
import type { Reader } from './earlier-body.ts'
import { versionOf } from '../versions/core/model-name.ts'
import { isWithheld, referenceTo, turnOfId, type ReferencePorts } from './references.ts'

type StoredPorts = ReferencePorts & { model: Model; policy: string; capture: Capture; now: () => number }
export type ResponseRequest = Reader & { id: string; query: Readonly<Record<string, unknown>> }
type Stored = { record: TurnCaptured | TurnAborted; reference: Awaited<ReturnType<typeof referenceTo>> }

/** Throws `unknown_turn` for an id that is unknown, of another key or dialect, not stored, or deleted. */
const stored = async (ports: StoredPorts, { id, ...reader }: ResponseRequest): Promise<Stored> => {
  // Another gateway may have deleted it just before.
  await ports.tail.turnsWithin(ports.tailWaitMs)
  const turn = parseMintedId(id)?.prefix === 'resp' ? await turnOfId(ports, reader.key, id) : undefined
  const record = turn && (await ports.reader.record(turn.turn))
  const reference = turn && (await referenceTo(ports, turn, reader))
  if (!record || !reference || reference.dialect !== DIALECTS.responses.name || isWithheld(turn, reference))
    throw new InstarError('unknown_turn', `There is no response ${JSON.stringify(id.slice(0, 100))} here.`, {
      field: 'response_id',
    })
  if (record.type === 'TurnSampled')
    throw new InstarError('unknown_turn', 'Nobody was given that response.', { field: 'response_id' })
  return { record, reference }
}

const getResponse = async (ports: StoredPorts, asked: ResponseRequest): Promise<unknown> => {
  if (asked.query['stream'] === 'true') throw wrong('stream', 'absent: a response that has ended is given whole')
  const { record, reference } = await stored(ports, asked)
  const { model, policy, reader } = ports
  const request = DIALECTS.responses.request(reference.body)
  const exact = record.tokens === 'exact'
  const prompt = (await reader.promptIds(record.turn)).length
  const answerContext: AnswerContext = {
    turn: record.turn,
    session: record.session,
    at: record.at,
    // At the URL of another trainer's gateway a request may name any model.
    model: request.model !== null && versionOf(request.model, policy) !== undefined ? request.model : policy,
    fingerprint: `instar-${policy}@${record.version}`,
    sampling: record.sampling,
    textOf: () => '',
    promptTokens: prompt,
  }
  const counts = {
    promptTokens: prompt,
    completionTokens: record.ids.length,
    reasoningTokens: thoughtTokens(model, record),
  }
  const said = DIALECTS.responses.whole(
    answerContext,
    { ...request, logprobs: false },
    [reference.choice],
    counts,
  ) as Fields
  // An engine that does not report token ids reported counts, which are not on the log.
  const counted = exact ? said : { ...said, usage: null }
  return record.type === 'TurnCaptured'
    ? counted
    : { ...counted, status: record.why === 'client_gone' ? 'cancelled' : 'failed' }
}

/** Tokens whose text is before the end of the reasoning. */
const thoughtTokens = (model: Model, { ids, text }: TurnCaptured | TurnAborted): number => {
  const end = readWritten(text).indexOf('</think>')
  const detokenizer = model.detokenizer()
  let length = 0
  let count = 0
  for (const id of ids) {
    length += detokenizer.push(id).length
    if (length > end) break
    count += 1
  }
  return end < 0 ? 0 : count
}

export const inputItems = async (ports: StoredPorts, asked: ResponseRequest): Promise<ItemPage> => {
  const { record, reference } = await stored(ports, asked)
  return itemPage(reference.body, turnIdPart(record.turn), asked.query)
}

/** No response runs in the background. Closing the connection cancels one that is running. */
const cancelResponse = async (ports: StoredPorts, asked: ResponseRequest): Promise<never> => {
  await stored(ports, asked)
  throw new InstarError(
    'bad_request',
    'Only a response that runs in the background can be cancelled, and none does here: close the connection of one that is being answered.',
    { field: 'response_id' },
  )
}

/**
 * Makes a response unavailable by id; it stays on the log. Throws `not_announced` if older readers of the log would
 * reject the record.
 */
const deleteResponse = async (ports: StoredPorts, asked: ResponseRequest): Promise<unknown> => {
  const { turn, session } = (await stored(ports, asked)).record
  const event: ResponseDeleted = { type: 'ResponseDeleted', session, turn, at: ports.now() }
  await ports.capture.write(event)
  // A later request at this gateway must find it deleted.
  await ports.tail.turnsWithin(ports.tailWaitMs)
  return { id: asked.id, object: 'response', deleted: true }
}

/** The operations on a stored response, by name. */
export const RESPONSES = {
  get: getResponse,
  items: inputItems,
  cancel: cancelResponse,
  delete: deleteResponse,
} as const
export type ResponseVerb = keyof typeof RESPONSES
