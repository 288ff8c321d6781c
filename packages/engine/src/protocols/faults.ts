/** What an engine's refusal is to whoever asked. */
import { contextLengthExceeded, InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { errorOf } from './wire.ts'

/** The statuses after which another replica, or the same a moment later, may answer. */
export const isTransient = (status: number): boolean =>
  status === 408 || status === 425 || status === 429 || status >= 500

/** Busy, not broken: no reason to leave the replica alone. */
export const isBusy = (status: number): boolean => status === 429 || status === 503

/** Of what an engine says, as much as a message quotes. */
const QUOTED = 300

export const quoted = (text: string): string => (text.length > QUOTED ? `${text.slice(0, QUOTED)}…` : text)

/** In the words of vLLM, SGLang, llama.cpp and OpenAI. */
const TOO_LONG =
  /maximum context length|context[_ ](length|size|window)|exceeds? the (available|model'?s?) context|longer than the model's context/i

/** In the words that agents know, with the engine's numbers where it gives them. */
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

/** In the words of vLLM, SGLang and llama.cpp, and of what they leave it to. */
const GRAMMAR = /grammar|ebnf|structured.?output|constrained|xgrammar|guidance|lark/i

/** A refusal of what an answer must be is the asker's business; others stay as they are. `field`: where it was asked. */
export const asGrammarError = (kind: string, fault: InstarError, field: string): InstarError =>
  fault.code === 'engine_refused' && GRAMMAR.test(fault.message)
    ? new InstarError(
        'bad_request',
        `${kind} does not take what the answer must be: ${fault.message}`,
        { field },
        { cause: fault },
      )
    : fault

/** An engine that takes messages was told what its client said: what it does not take of that is the client's to know, with the field. */
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

/** Of an answer whose status says that asking again is of no use. */
export const refusal = (kind: string, status: number, said: string): InstarError => {
  if ((status === 400 || status === 413) && TOO_LONG.test(said)) return tooLong(quoted(said))
  if (kind === 'openai' && (status === 400 || status === 422)) return asRequestError(said)
  if (status === 401 || status === 403)
    return new InstarError('engine_refused', `${kind} answered ${status}: INSTAR_ENGINE_KEY is missing or wrong.`, {
      status,
    })
  return new InstarError('engine_refused', `${kind} answered ${status}: ${quoted(said)}`, { status })
}
