/** Maps HTTP errors of engines to InstarError. */
import { contextLengthExceeded, InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { errorOf } from './wire.ts'

/** Statuses after which a retry, or another replica, may succeed. */
export const isTransient = (status: number): boolean =>
  status === 408 || status === 425 || status === 429 || status >= 500

/** Whether the replica refuses requests because of load; it is not counted as failed. */
export const isBusy = (status: number): boolean => status === 429 || status === 503

/** Characters of an engine's message in an error. */
const MAX_QUOTED_CHARS = 300

export const quoted = (text: string): string =>
  text.length > MAX_QUOTED_CHARS ? `${text.slice(0, MAX_QUOTED_CHARS)}…` : text

/** Error messages of vLLM, SGLang, llama.cpp and OpenAI for a prompt that exceeds the context. */
const TOO_LONG =
  /maximum context length|context[_ ](length|size|window)|exceeds? the (available|model'?s?) context|longer than the model's context/i

/** With the wording by which agents recognise this error, and the engine's numbers if its message has them. */
const contextError = (body: string): InstarError => {
  const limit = Number(/context[_ ](?:length|size|window)\D{0,40}(\d{2,})/i.exec(body)?.[1] ?? 0)
  const prompt = Math.max(0, ...[...body.matchAll(/\d{2,}/g)].map(([digits]) => Number(digits)))
  return limit > 0 && prompt > limit
    ? contextLengthExceeded(prompt, limit)
    : new InstarError(
        'context_length_exceeded',
        `The prompt is too long for the maximum context length of the model: ${body}`,
      )
}

/** Words in the error messages of vLLM, SGLang, llama.cpp and their grammar backends for a grammar that they reject. */
const GRAMMAR = /grammar|ebnf|structured.?output|constrained|xgrammar|guidance|lark/i

/** A refused grammar becomes a `bad_request` for `field`; other errors are returned unchanged. */
export const asGrammarError = (kind: string, fault: InstarError, field: string): InstarError =>
  fault.code === 'engine_refused' && GRAMMAR.test(fault.message)
    ? new InstarError(
        'bad_request',
        `The engine ${kind} rejects the grammar of the answer: ${fault.message}`,
        { field },
        { cause: fault },
      )
    : fault

/** For a chat engine, which receives the client's own fields: the error names the field that it refuses. */
const asRequestError = (body: string): InstarError => {
  const object = parseJsonObject(body)
  const error = object && errorOf(object)
  const message = quoted(error?.message ?? body)
  return new InstarError(
    'bad_request',
    `The engine refuses the request: ${message}${/[.!?…]$/.test(message) ? '' : '.'}`,
    error?.param === undefined ? {} : { field: error.param },
  )
}

/** The error for a status that is not transient. `body`: the response as text. */
export const refusal = (kind: string, status: number, body: string): InstarError => {
  if ((status === 400 || status === 413) && TOO_LONG.test(body)) return contextError(quoted(body))
  if (kind === 'openai' && (status === 400 || status === 422)) return asRequestError(body)
  if (status === 401 || status === 403)
    return new InstarError('engine_refused', `${kind} returned ${status}: INSTAR_ENGINE_KEY is missing or wrong.`, {
      status,
    })
  return new InstarError('engine_refused', `${kind} returned ${status}: ${quoted(body)}`, { status })
}
