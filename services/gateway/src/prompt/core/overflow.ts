/**
 * Rejects a prompt that is far too long without encoding all of it: encoding takes about a second per megabyte and
 * blocks the event loop.
 */
import { contentText, InstarError } from '@instar/events'
import type { Message } from '@instar/dialects'

/** A prompt with fewer characters per token of context is not checked here. */
export const CHARACTERS = 8
const SLICE = 16_384
/** Maximum number of extra tokens that slicing inside a word causes. */
const SEAM = 16

/** Maximum number of messages of a request: matching and rendering one takes 20 to 60 µs of the event loop. */
export const MOST_MESSAGES = 8192

/** Throws `bad_request` for more messages than a request may have. */
export const checkMessages = (messages: readonly Message[]): void => {
  if (messages.length <= MOST_MESSAGES) return
  const message = `The request has ${messages.length} messages, those that it refers to included; at most ${MOST_MESSAGES} are taken.`
  throw new InstarError('bad_request', message, { field: 'messages', limit: MOST_MESSAGES })
}

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
