/**
 * Conversations that are far too long are told so without being made into tokens, which takes about a second for a
 * megabyte, during which nobody else is answered.
 */
import { contentText } from '@instar/events'
import type { Message } from '@instar/dialects'

/** Fewer characters than this for each token of the context are looked at as they are. */
export const CHARACTERS = 8
const SLICE = 16_384
/** A cut in the middle of a word makes this many tokens more, at most. */
const SEAM = 16

/**
 * About how many tokens the messages have, if they certainly fill the context: no more of them is counted than fills
 * it, the rest is taken to be alike. Null: they may fit, or there is no tokenizer to tell.
 */
export const tokensBeyond = (
  messages: readonly Message[],
  model: { contextLength: number; vocabulary: number; encode(text: string): readonly number[] },
): number | null => {
  const texts = messages.map(rendered)
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

/** The fewest tokens that a text of so many UTF-16 units has; 0 where the model does not say how long one can be. */
export const leastTokens = (length: number, { longestToken }: { longestToken?: number }): number =>
  longestToken === undefined ? 0 : Math.ceil(length / longestToken)

/** What a chat template surely writes: it may leave out what stands at the edges, and what was thought. */
const rendered = ({ role, content }: Message): string => {
  const text = contentText(content).trim()
  return role === 'assistant' && text.includes('</think>') ? '' : text
}
