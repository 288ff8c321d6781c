/** `/v1/completions`: parses the request and builds the response's objects. */
import type { Reweighting } from '@instar/engine/port'
import {
  fieldsOf,
  flag,
  integer,
  number,
  reweightingOf,
  stopsOf,
  text,
  topP,
  wrong,
  type Fields,
  type Token,
} from '@instar/dialects'
import { InstarError } from '@instar/events'

/**
 * `prompts`: text or token ids. `logprobs`: the number of likely tokens to report beside each sampled one, or null for
 * no log-probs.
 */
export type CompletionRequest = {
  model: string | null
  prompts: readonly (string | readonly number[])[]
  n: number
  maxTokens: number
  temperature: number | null
  topP: number | null
  topK: number | null
  seed: number | null
  stop: string[]
  logprobs: number | null
  echo: boolean
  stream: boolean
  includeUsage: boolean
  reweighting: Reweighting | null
}

const MOST_PROMPTS = 128
const MOST_CHOICES = 16
const MOST_LIKELY = 20
/** Log-probs in an answer that is not streamed: with LOGPROB_BYTES each they fit what one request may hold by default. */
export const MOST_COMPLETION_LOGPROBS = 800_000
/** Tokens of all choices of an answer that is not streamed, echoed ones included. One choice may fill the context. */
export const MOST_COMPLETION_TOKENS = 1_000_000
/** As text and as the response. */
const CHARACTER_BYTES = 4
const LOGPROB_BYTES = 150
/** Of the object of a piece. */
const PIECE_BYTES = 100

/** Bytes of memory that a piece of a choice occupies until its answer is sent. */
export const pieceBytes = ({ text, logprobs }: Pick<CompletionChoice, 'text' | 'logprobs'>): number =>
  PIECE_BYTES +
  heldBytes(
    text.length,
    logprobs?.top_logprobs.reduce((sum, top) => sum + 1 + (top === null ? 0 : Object.keys(top).length), 0) ?? 0,
  )

/** Bytes of memory of so many characters and log-probs. */
export const heldBytes = (characters: number, logprobs: number): number =>
  CHARACTER_BYTES * characters + LOGPROB_BYTES * logprobs

/** OpenAI's default. */
const DEFAULT_TOKENS = 16

/** Throws `bad_request` that names the field. */
export const completionRequest = (body: Fields): CompletionRequest => {
  const echo = flag(body, 'echo')
  const n = integer(body, 'n', 1, MOST_CHOICES) ?? 1
  const prompts = promptsOf(body['prompt'])
  if ((text(body, 'suffix') ?? '') !== '')
    throw new InstarError('bad_request', 'suffix: this model does not write what stands between two texts.', {
      field: 'suffix',
    })
  if ((integer(body, 'best_of', 1, MOST_CHOICES) ?? n) !== n)
    throw new InstarError('bad_request', `best_of must be n, which is ${n}: none of the choices is kept back.`, {
      field: 'best_of',
    })
  const options = body['stream_options'] ?? null
  return {
    model: text(body, 'model'),
    prompts,
    n,
    echo,
    maxTokens: integer(body, 'max_tokens', echo ? 0 : 1, Number.MAX_SAFE_INTEGER) ?? DEFAULT_TOKENS,
    temperature: number(body, 'temperature', 0, 2),
    topP: topP(body),
    topK: integer(body, 'top_k', -1, Number.MAX_SAFE_INTEGER),
    seed: integer(body, 'seed', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    stop: stopOf(body['stop']),
    logprobs: integer(body, 'logprobs', 0, MOST_LIKELY),
    stream: flag(body, 'stream'),
    includeUsage: options !== null && flag(fieldsOf(options, 'stream_options'), 'include_usage'),
    reweighting: reweightingOf(body),
  }
}

const isIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id) && id >= 0)
const isPrompt = (value: unknown): value is string | number[] =>
  (typeof value === 'string' && value !== '') || isIds(value)

const promptsOf = (value: unknown): (string | number[])[] => {
  const prompts: unknown[] = isPrompt(value) ? [value] : Array.isArray(value) ? value : []
  if (prompts.length === 0 || prompts.length > MOST_PROMPTS || !prompts.every(isPrompt))
    throw wrong(
      'prompt',
      `a text, a list of ids of tokens, or a list of up to ${MOST_PROMPTS} of one of them, none of them empty`,
    )
  return prompts
}

const stopOf = (value: unknown): string[] =>
  value === undefined || value === null ? [] : stopsOf(Array.isArray(value) ? value : [value], 'stop', 'a text or ')

/** A token with its log-prob, which is null for the first token of the context, and where the engine reports none. */
export type ScoredToken = Pick<Token, 'id' | 'top'> & { logprob: number | null }

/** `offset`: position of the first token in the choice's text. */
export const completionLogprobs = (tokens: readonly ScoredToken[], offset: number, textOf: (id: number) => string) => {
  let at = offset
  const texts = tokens.map(({ id }) => textOf(id))
  return {
    tokens: texts,
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ logprob, top }) =>
      logprob === null ? null : Object.fromEntries(top.toReversed().map((one) => [textOf(one.id), one.logprob])),
    ),
    text_offset: texts.map((one) => (at += one.length) - one.length),
  }
}

export type CompletionChoice = {
  text: string
  index: number
  logprobs: ReturnType<typeof completionLogprobs> | null
  finish_reason: 'stop' | 'length' | null
}
export type CompletionHead = {
  id: string
  object: 'text_completion'
  created: number
  model: string
  system_fingerprint: string
}

export const completionUsage = (prompt: number, completion: number) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
})
