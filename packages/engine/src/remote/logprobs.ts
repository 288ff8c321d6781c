/** Log-probs of given tokens, in one response of a replica. */
import { InstarError } from '@instar/events'
import type { JsonObject } from '@instar/events/json'
import type { Hold } from '../port.ts'
import { scoreBytesMax, scoreLimits } from '../protocols/answer-limits.ts'
import { isTransient, quoted, refusal } from '../protocols/faults.ts'
import { errorOf, type Protocol, type WireNextRequest } from '../protocols/wire.ts'
import { Held } from './held.ts'
import { EngineFault, MAX_BODY_BYTES, type EngineHttp } from './http.ts'

type Reading<R> = {
  call(request: R): { path: string; body: JsonObject }
  read(body: JsonObject, request: R): number[] | null
}

/** `tokens`: of the request. `hold` counts the response. Throws EngineFault if a retry may succeed, else InstarError, and as `hold`. */
const logprobsFrom = async <R extends { adapter: string | null }>(
  http: EngineHttp,
  protocol: Protocol,
  { call, read }: Reading<R>,
  request: R,
  signal: AbortSignal | undefined,
  { tokens, hold }: { tokens: number; hold?: Hold | undefined },
): Promise<number[]> => {
  const { path, body } = call(request)
  const held = new Held(hold)
  const limit = { maxBytes: Math.min(MAX_BODY_BYTES, scoreBytesMax(tokens)), limits: scoreLimits(tokens) }
  try {
    const response = await http.json('POST', path, body, signal, { ...limit, held, hold })
    const logprobs = response.status === 200 && response.body ? read(response.body, request) : null
    if (logprobs) return logprobs
    if (
      isTransient(response.status) ||
      (request.adapter !== null && protocol.adapterUnknown(response.status, response.text))
    )
      throw new EngineFault('status', quoted(response.text), response.status)
    throw refusal(
      protocol.kind,
      response.status,
      quoted((response.body && errorOf(response.body)?.message) ?? response.text),
    )
  } finally {
    held.set(0)
  }
}

/** Log-probs of given tokens at temperature 1. Throws as `logprobsFrom`, and `not_available`. */
export const scoreOf = (
  http: EngineHttp,
  protocol: Protocol,
  request: { model: string; adapter: string | null; prompt: readonly number[]; completion: readonly number[] },
  signal?: AbortSignal,
  hold?: Hold,
): Promise<number[]> => {
  if (!protocol.score)
    throw new InstarError('not_available', `The engine ${protocol.kind} computes no log-probs of given tokens.`)
  const tokens = request.prompt.length + request.completion.length
  return logprobsFrom(http, protocol, protocol.score, request, signal, { tokens, hold })
}

/** Log-probs of `ids` as the next token. Throws as `logprobsFrom`, and `not_available`. */
export const nextOf = (
  http: EngineHttp,
  protocol: Protocol,
  request: WireNextRequest,
  signal?: AbortSignal,
): Promise<number[]> => {
  if (!protocol.next)
    throw new InstarError('not_available', `The engine ${protocol.kind} computes no log-probs of given next tokens.`)
  return logprobsFrom(http, protocol, protocol.next, request, signal, {
    tokens: request.prompt.length + request.ids.length,
  })
}
