/** The answer format and engine fields of a Responses request. */
import type { AnswerFormat } from '../answer-format.ts'
import { chatToolChoice, commonFields, OPENAI_FIELDS, responseFormat, set, taken, within } from '../engine-fields.ts'
import type { Fields } from '../fields.ts'
import type { Request } from '../request.ts'

export const responsesFormat = (body: Fields): AnswerFormat => ({
  format: within(body, 'text', 'format') ?? null,
  field: 'text.format',
  schemaIn: null,
})

export const responsesEngineFields = ({ body, maxTokens }: Request, calling: boolean): Fields => ({
  ...set('max_tokens', maxTokens),
  ...commonFields(body),
  ...taken(body, OPENAI_FIELDS),
  ...set('reasoning_effort', within(body, 'reasoning', 'effort')),
  ...set('verbosity', within(body, 'text', 'verbosity')),
  ...responseFormat(responsesFormat(body)),
  ...(calling
    ? {
        ...set('tool_choice', chatToolChoice(body['tool_choice'])),
        ...set('parallel_tool_calls', body['parallel_tool_calls']),
      }
    : {}),
})
