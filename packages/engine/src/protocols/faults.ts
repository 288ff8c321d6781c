/** HTTP errors of engines as errors of Instar. */
import { contextLengthExceeded, InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { errorOf } from './wire.ts'

/** Statuses after which a retry, or another replica, may succeed. */
export const isTransient = (status: number): boolean =>
  status === 408 || status === 425 || status === 429 || status >= 500

/** The replica is overloaded, not broken. */
export const isBusy = (status: number): boolean => status === 429 || status === 503

/** Characters of an engine's message that are quoted. */
const QUOTED = 300

export const quoted = (text: string): string => (text.length > QUOTED ? `${text.slice(0, QUOTED)}…` : text)

/** Wordings of vLLM, SGLang, llama.cpp and OpenAI. */
const TOO_LONG =
  /maximum context length|context[_ ](length|size|window)|exceeds? the (available|model'?s?) context|longer than the model's context/i

/** In the wording that agents recognise, with the engine's numbers if it gives them. */
const tooLong = (said: string): InstarError => {
  const limit = Number(/context[_ ](?:length|size|window)\D{0,40}(\d{2,})/i.exec(said)?.[1] ?? 0)
  const prompt = Math.max(0, ...[...said.matchAll(/\d{2,}/g)].map(([digits]) => Number(digits)))
  return limit > 0 && prompt > limit
    ? contextLengthExceeded(prompt, limit)
    : new InstarError(
        'context_length_exceeded',
        `The prompt is too long for the maximum context length of the model: ${said}`,
      )
}

/** Wordings of vLLM, SGLang and llama.cpp and of their grammar backends. */
const GRAMMAR = /grammar|ebnf|structured.?output|constrained|xgrammar|guidance|lark/i

/** A refused grammar becomes a `bad_request` for `field`; other errors are returned unchanged. */
export const asGrammarError = (kind: string, fault: InstarError, field: string): InstarError =>
  fault.code === 'engine_refused' && GRAMMAR.test(fault.message)
    ? new InstarError(
        'bad_request',
        `${kind} does not take what the answer must be: ${fault.message}`,
        { field },
        { cause: fault },
      )
    : fault

/** A chat engine gets the client's own fields, so the client is told which of them it refuses. */
const asRequestError = (said: string): InstarError => {
  const body = parseJsonObject(said)
  const error = body && errorOf(body)
  const words = quoted(error?.message ?? said)
  return new InstarError(
    'bad_request',
    `The engine refuses the request: ${words}${/[.!?…]$/.test(words) ? '' : '.'}`,
    error?.param === undefined ? {} : { field: error.param },
  )
}

/** The error for a status after which a retry cannot succeed. */
export const refusal = (kind: string, status: number, said: string): InstarError => {
  if ((status === 400 || status === 413) && TOO_LONG.test(said)) return tooLong(quoted(said))
  if (kind === 'openai' && (status === 400 || status === 422)) return asRequestError(said)
  if (status === 401 || status === 403)
    return new InstarError('engine_refused', `${kind} answered ${status}: INSTAR_ENGINE_KEY is missing or wrong.`, {
      status,
    })
  return new InstarError('engine_refused', `${kind} answered ${status}: ${quoted(said)}`, { status })
}
