/** Requests `/v1/embeddings` of an engine with OpenAI's interface, once: the client decides whether to retry. */
import { InstarError } from '@instar/events'
import { isBusy, isTransient, quoted, refusal } from '../protocols/faults.ts'
import type { JsonObject } from '@instar/events/json'
import type { Hold } from '../port.ts'
import type { EngineKind } from '../protocols/kinds.ts'
import { Held } from './held.ts'
import { beginningOf, collect, EngineFault, MAX_BODY_BYTES, type EngineHttp } from './http.ts'

/**
 * The response as it came: parsing it would hold up others, and the client does so anyway. `hold` counts its memory as it
 * arrives; the request ends with its error.
 * Throws `bad_request` if the engine refuses the request, `not_available` if it has no embeddings, `overloaded`,
 * `engine_lost`, and `aborted` by `signal`.
 */
export const embeddings = async (
  http: EngineHttp,
  kind: EngineKind,
  body: JsonObject,
  signal?: AbortSignal,
  hold?: Hold,
): Promise<Uint8Array> => {
  try {
    const { status, retryAfterMs, bytes } = await http.send('POST', '/v1/embeddings', body, signal, {
      whole: true,
      hold,
    })
    if (status === 200) {
      const whole = await collect(bytes, MAX_BODY_BYTES, new Held(hold))
      if (isObjectText(whole)) return whole
      throw new EngineFault('response', 'the response is not a JSON object')
    }
    const text = await beginningOf(bytes)
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

/** Whether it begins and ends as a JSON object does. */
const isObjectText = (bytes: Buffer): boolean => {
  const isBlank = (at: number): boolean => [0x20, 0x09, 0x0a, 0x0d].includes(bytes[at]!)
  let [from, to] = [0, bytes.length - 1]
  while (from < to && isBlank(from)) from += 1
  while (to > from && isBlank(to)) to -= 1
  return to > from && bytes[from] === 0x7b && bytes[to] === 0x7d
}
