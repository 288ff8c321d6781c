/**
 * Rejects a prompt that is far too long without encoding all of it: encoding takes about a second per megabyte and
 * blocks the event loop.
 */
import { contentText, InstarError } from '@instar/events'
import { isJsonObject } from '@instar/events/json'
import { exceedTogether } from '@instar/events/json-size'
import type { Message } from '@instar/dialects'

/** A prompt with fewer characters per token of context is not checked here. */
export const CHARACTERS = 8
const SLICE = 16_384
/** Maximum number of extra tokens that slicing inside a word causes. */
const SEAM = 16

/** Maximum number of messages of a request: matching and rendering one takes 20 to 60 µs of the event loop. */
export const MOST_MESSAGES = 8192

/**
 * What the arguments of a request's tool calls may have together. They are JSON in a text of the body, so that its own limits
 * do not count what they hold; they are parsed to compare answers, and 12 MB of empty objects took 20 s.
 */
export const MOST_IN_ARGUMENTS = { containers: 100_000, values: 400_000, fields: 400_000, widest: 20_000 } as const

/** Throws `bad_request` for more messages, or larger arguments of tool calls, than a request may have. */
export const checkMessages = (messages: readonly Message[]): void => {
  if (messages.length > MOST_MESSAGES) {
    const message = `The request has ${messages.length} messages, those that it refers to included; at most ${MOST_MESSAGES} are taken.`
    throw new InstarError('bad_request', message, { field: 'messages', limit: MOST_MESSAGES })
  }
  if (exceedTogether(messages.flatMap(argumentsIn), MOST_IN_ARGUMENTS)) {
    const { containers, values, fields, widest } = MOST_IN_ARGUMENTS
    throw new InstarError(
      'bad_request',
      `The arguments of the tool calls have together more than ${containers} objects and lists, ${values} values, ${fields} fields of objects or ${widest} of one.`,
      { field: 'messages', limit: containers },
    )
  }
}

const argumentsIn = ({ tool_calls: calls, function_call: call }: Message): string[] =>
  [...(Array.isArray(calls) ? (calls as unknown[]) : []), { function: call }].flatMap((one) => {
    const called = isJsonObject(one) ? one['function'] : null
    const given = isJsonObject(called) ? called['arguments'] : null
    return typeof given === 'string' ? [given] : []
  })

type Counting = { contextLength: number; vocabulary: number; encode(text: string): readonly number[] }

/**
 * Estimates the number of tokens if the messages certainly exceed the context: encodes only as much as fills the
 * context and extrapolates the rest. Null: they may fit, or there is no tokenizer.
 */
export const tokensBeyond = (messages: readonly Message[], model: Counting): number | null =>
  textsBeyond(messages.map(rendered), model)

/** The same of texts that are encoded as they are. */
export const textsBeyond = (texts: readonly string[], model: Counting): number | null => {
  const length = texts.reduce((sum, text) => sum + text.length, 0)
  if (model.vocabulary === 0 || length < CHARACTERS * model.contextLength) return null
  let tokens = 0
  let read = 0
  for (const text of texts) {
    for (let from = 0; from < text.length; from += SLICE) {
      const slice = text.slice(from, from + SLICE)
      tokens += Math.max(0, model.encode(slice).length - (text.length > SLICE ? SEAM : 0))
      read += slice.length
      if (tokens >= model.contextLength) return Math.round((tokens * length) / read)
    }
  }
  return null
}

/** Minimum number of tokens of a text with this many UTF-16 units; 0 if the model's longest token is not known. */
export const leastTokens = (length: number, { longestToken }: { longestToken?: number }): number =>
  longestToken === undefined ? 0 : Math.ceil(length / longestToken)

/** The text that every chat template writes. A template may trim a message and drop its reasoning. */
const rendered = ({ role, content }: Message): string => {
  const text = contentText(content).trim()
  return role === 'assistant' && text.includes('</think>') ? '' : text
}
