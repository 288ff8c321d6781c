/** The fields of a Chat Completions request that an engine with the same API receives. */
import type { AnswerFormat } from '../answer-format.ts'
import { commonFields, OPENAI_FIELDS, set, taken } from '../engine-fields.ts'
import { isFields, type Fields } from '../fields.ts'
import type { Request } from '../request.ts'

const CHAT_FIELDS = ['reasoning_effort', 'reasoning', 'thinking', 'verbosity', 'store'] as const

export const chatFormat = (body: Fields): AnswerFormat => ({
  format: body['response_format'] ?? null,
  field: 'response_format',
  schemaIn: 'json_schema',
})

export const chatEngineFields = ({ body, maxTokens }: Request, calling: boolean): Fields => ({
  ...limitOf(body, maxTokens),
  ...commonFields(body),
  ...taken(body, [...OPENAI_FIELDS, ...CHAT_FIELDS]),
  ...predictionOf(body['prediction']),
  ...set('response_format', chatFormat(body).format),
  // OpenAI refuses both fields in a request without tools.
  ...(calling ? taken(body, ['tool_choice', 'parallel_tool_calls']) : {}),
})

/**
 * Keeps the client's field name: hosted models accept `max_completion_tokens` only, small servers `max_tokens` only.
 */
const limitOf = (body: Fields, maxTokens: number | null): Fields =>
  set((body['max_completion_tokens'] ?? null) === null ? 'max_tokens' : 'max_completion_tokens', maxTokens)

/** The `prediction` field with its text parts only; no field if it is invalid. */
const predictionOf = (prediction: unknown): Fields => {
  if (!isFields(prediction)) return {}
  const { content } = prediction
  const parts = Array.isArray(content)
    ? content.filter(isFields).flatMap(({ text }) => (typeof text === 'string' ? [{ type: 'text', text }] : []))
    : content
  return typeof parts === 'string' || Array.isArray(parts) ? { prediction: { type: 'content', content: parts } } : {}
}
