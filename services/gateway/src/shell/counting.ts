/** Tokens of a prompt, as clients are told them. */
import { parseJson, type Dialect, type Request } from '@instar/dialects'
import type { Model } from '@instar/policy'
import { estimatedTokens } from '../core/chat-asked.ts'
import { tokensBeyond } from '../core/overflow.ts'

/** Of a prompt as the client tells it: our answers in it are not known again. Room for an answer is not asked for. */
export const countTokens = (model: Model, dialect: Dialect, body: Uint8Array): number => {
  const request = dialect.request({ max_tokens: 1, ...parseJson(body) })
  return tokensBeyond(request.messages, model) ?? promptTokens(model, request, model.promptIds(request.messages, { tools: request.tools }))
}

/** Without a tokenizer an estimate, until the engine says. */
export const promptTokens = (model: Model, request: Request, prompt: readonly number[]): number => (model.vocabulary === 0 ? estimatedTokens(request) : prompt.length)
