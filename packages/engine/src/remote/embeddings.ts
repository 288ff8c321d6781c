/** Requests `/v1/embeddings` of an engine with OpenAI's interface, once: the client decides whether to retry. */
import { InstarError } from '@instar/events'
import { isBusy, isTransient, quoted, refusal } from '../protocols/faults.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { EngineKind } from '../protocols/kinds.ts'
import { beginningOf, collect, EngineFault, MAX_BODY_BYTES, type EngineHttp } from './http.ts'

/** A response in memory: as it came, parsed, and as it is sent. */
const COPIES = 3

/**
 * `hold` counts the memory of the response as it arrives; the request ends with its error.
 * Throws `bad_request` if the engine refuses the request, `not_available` if it has no embeddings, `overloaded`,
 * `engine_lost`, and `aborted` by `signal`.
 */
export const embeddings = async (
  http: EngineHttp,
  kind: EngineKind,
  body: JsonObject,
  signal?: AbortSignal,
  hold: (bytes: number) => void = () => undefined,
): Promise<JsonObject> => {
  try {
    const { status, retryAfterMs, bytes } = await http.send('POST', '/v1/embeddings', body, signal, { whole: true })
    const text =
      status === 200
        ? await collect(bytes, MAX_BODY_BYTES, (length) => hold(COPIES * length))
        : await beginningOf(bytes)
    if (status === 200) {
      const value: unknown = JSON.parse(text)
      if (isJsonObject(value)) return value
      throw new EngineFault('response', 'the response is not a JSON object')
    }
    if (status === 404 || status === 405)
      throw new InstarError('not_available', `The engine has no embeddings for this model: ${quoted(text)}`, {
        field: 'model',
      })
    if (isBusy(status))
      throw new InstarError(
        'overloaded',
        `The engine is overloaded: ${quoted(text)}.`,
        retryAfterMs === null ? {} : { retryAfterMs },
      )
    if (isTransient(status)) throw new EngineFault('status', quoted(text), status)
    throw refusal(kind, status, text)
  } catch (error) {
    if (error instanceof InstarError) throw error
    if (signal?.aborted) throw new InstarError('aborted', 'The request was aborted.', {}, { cause: signal.reason })
    throw new InstarError(
      'engine_lost',
      `The embeddings request failed: ${(error as Error).message}.`,
      {},
      { cause: error },
    )
  }
}
