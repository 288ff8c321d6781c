/** Counts the tokens of a prompt. */
import type { AcceptedMedia, Dialect, Fields, Request } from '@instar/dialects'
import type { Model } from '@instar/engine/port'
import { estimatedTokens } from '../generate/core/chat-asked.ts'
import { contentText } from '@instar/events'
import { CHARACTERS, checkMessages, leastTokens, tokensBeyond } from './core/overflow.ts'

/**
 * Estimates the tokens of a prompt that certainly exceeds the context; null: it may fit. Only the template knows how
 * tools are rendered.
 */
export const beyondContext = (model: Model, { messages, tools }: Request): number | null => {
  const beyond = tokensBeyond(messages, model) ?? certainlyBeyond(model, { messages, tools })
  if (
    beyond !== null ||
    tools.length === 0 ||
    model.vocabulary === 0 ||
    JSON.stringify(tools).length < CHARACTERS * model.contextLength
  )
    return beyond
  return tokensBeyond([{ role: 'user', content: model.render(messages, { tools, addGenerationPrompt: true }) }], model)
}

/**
 * Checks the length of the rendered text, since whitespace or one endless word take as long to encode as other text.
 */
const certainlyBeyond = (model: Model, { messages, tools }: Pick<Request, 'messages' | 'tools'>): number | null => {
  const written = messages.reduce((sum, { content }) => sum + contentText(content).length, 0)
  if (leastTokens(written, model) < model.contextLength) return null
  const least = leastTokens(model.render(messages, { tools, addGenerationPrompt: true }).length, model)
  return least >= model.contextLength ? least : null
}

/** Counts the prompt as the client sent it, without recognising sampled answers and without room for an answer. */
export const countTokens = (model: Model, dialect: Dialect, body: Fields, accepts?: AcceptedMedia): number => {
  const request = dialect.request({ max_tokens: 1, ...body }, accepts)
  checkMessages(request.messages)
  return (
    beyondContext(model, request) ??
    promptTokens(model, request, model.promptIds(request.messages, { tools: request.tools }))
  )
}

/** Without a tokenizer an estimate, until the engine reports its count. */
export const promptTokens = (model: Model, request: Request, prompt: readonly number[]): number =>
  model.vocabulary === 0 ? estimatedTokens(request) : prompt.length
