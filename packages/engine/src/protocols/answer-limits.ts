/** Limits of an answer's size, since an engine may send more than it was asked for. */
import { InstarError } from '@instar/events/errors'
import type { JsonLimits } from '@instar/events/json-size'
import { idsOf } from './wire.ts'

/** Below the 8 MiB of a record on Kafka, which holds the answer once as text and once as ids with log-probs. */
const ANSWER_BYTES_MAX = 4 << 20
/** More than the longest tokens have, of which vocabularies have a few (runs of spaces). */
const TOKEN_BYTES = 64
/** For what servers do not count as tokens of the answer: reasoning and the markup of tool calls. */
const UNCOUNTED_BYTES = 256 << 10

/** The most bytes of text of an answer of at most `maxTokens` tokens. */
export const answerBytesMax = (maxTokens: number): number =>
  Math.min(ANSWER_BYTES_MAX, UNCOUNTED_BYTES + TOKEN_BYTES * Math.max(0, maxTokens))

/**
 * The ids of an event of an answer of at most `maxTokens` tokens; null if it reports none. Throws `engine_lost` if they are
 * more than the bytes that the answer may have: each counts as one at least, and takes more memory as a token.
 */
export const answerIds = (value: unknown, maxTokens: number): number[] | null => {
  const most = answerBytesMax(maxTokens)
  if (Array.isArray(value) && value.length > most)
    throw new InstarError('engine_lost', `The engine's answer has more than ${most} tokens.`)
  return idsOf(value)
}

/** The most bytes of a response that is one JSON object: each byte of text may be escaped (`\\u0001`). */
export const WHOLE_ANSWER_BYTES_MAX = 6 * ANSWER_BYTES_MAX

/** The most tool calls of an answer. OpenAI's interface takes at most 128 tools. */
export const CALLS_MAX = 128

/**
 * The most events in a row that are no part of an answer. The fragments of a tool call of a chat engine count as such,
 * so it is more than the tokens of any answer.
 */
export const EMPTY_EVENTS_MAX = 262_144

/**
 * Of a JSON value that an engine sends: parsing an object of many names takes microseconds for each, and a list of lists the
 * most memory. A million lists are the log-probs of an answer of 40,000 tokens with 20 alternatives each.
 */
export const JSON_LIMITS: JsonLimits = { containers: 1_000_000, values: 4_000_000, fields: 400_000, widest: 20_000 }

/** As `JSON_LIMITS`, of the log-probs of so many tokens: an object of one or two alternatives each, with three fields. */
export const scoreLimits = (tokens: number): JsonLimits => ({
  ...JSON_LIMITS,
  fields: JSON_LIMITS.fields + 16 * tokens,
})

/** The most bytes of the log-probs of so many tokens. */
export const scoreBytesMax = (tokens: number): number => (1 << 20) + (2 << 10) * tokens
