/** The tool choice, answer format and engine fields of a Messages request. */
import type { AnswerFormat } from '../answer-format.ts'
import { chatToolChoice, commonFields, responseFormat, set, within } from '../engine-fields.ts'
import { isFields, type Fields } from '../fields.ts'
import type { Request } from '../request.ts'
import { nameOf, type ToolChoice } from '../tool-choice.ts'

export const messagesFormat = (body: Fields): AnswerFormat => {
  const format = within(body, 'output_config', 'format') ?? null
  return format === null
    ? { format: body['output_format'] ?? null, field: 'output_format', schemaIn: null }
    : { format, field: 'output_config.format', schemaIn: null }
}

const isOneCall = (choice: unknown): boolean => isFields(choice) && choice['disable_parallel_tool_use'] === true

/** Throws `bad_request`. */
export const messagesToolChoice = (body: Fields): ToolChoice => {
  const choice = body['tool_choice']
  const kind = isFields(choice) ? choice['type'] : choice
  if (kind === 'any') return { required: 'all', one: isOneCall(choice) }
  if (kind === 'tool') return { required: new Set([nameOf(choice)]), one: true }
  return { required: null, one: isOneCall(choice) }
}

export const messagesEngineFields = ({ body, maxTokens }: Request, calling: boolean): Fields => ({
  ...set('max_tokens', maxTokens),
  ...commonFields(body),
  ...set('reasoning_effort', within(body, 'output_config', 'effort')),
  ...responseFormat(messagesFormat(body)),
  ...(calling
    ? {
        ...set('tool_choice', chatToolChoice(body['tool_choice'])),
        ...set('parallel_tool_calls', isOneCall(body['tool_choice']) ? false : null),
      }
    : {}),
})
