/** The bodies of `POST /v1/messages` and `/v1/messages/count_tokens`, as `../messages/request.ts` accepts them. */
import { z } from 'zod'
import { model, otherThan, reweighting, stops, stream, temperature, text, textPart, topK, topP } from './fields.ts'

/** The source of a text document: a string or text parts. */
const source = z.union([
  z.looseObject({ type: z.literal('text'), data: z.string() }),
  z.looseObject({ type: z.literal('content'), content: z.union([z.string(), z.array(textPart())]) }),
])
const textBlock = z.union([textPart(), z.looseObject({ type: z.literal('document'), source })])
const texts = z.union([z.string(), z.array(textBlock)])

const userBlock = z.union([
  z.looseObject({
    type: z.literal('tool_result'),
    tool_use_id: text('The id of the call.'),
    content: texts.nullish(),
  }),
  textPart('tool_result'),
  z.looseObject({ type: z.literal('document'), source }),
])
const assistantBlock = z.union([
  z.looseObject({ type: z.literal('tool_use'), name: text('The name of the tool.') }),
  z.looseObject({ type: otherThan('tool_use').optional() }),
])

const message = z.union([
  z.looseObject({ role: z.literal('user'), content: z.union([z.string(), z.array(userBlock)]) }),
  z.looseObject({ role: z.literal('assistant'), content: z.union([z.string(), z.array(assistantBlock)]) }),
  z.looseObject({ role: z.literal('system'), content: texts }),
])

const maxTokens = z.int().min(1).describe('Maximum number of tokens of the answer.')

const common = z.looseObject({
  model,
  system: texts.nullish(),
  tools: z
    .array(
      z.looseObject({ name: z.string(), description: z.unknown().optional(), input_schema: z.unknown().optional() }),
    )
    .nullish()
    .describe(
      'Tools without an `input_schema` are hosted by Anthropic: they are dropped and listed in `x-instar-dropped-tools`.',
    ),
  tool_choice: z
    .looseObject({ type: text('`none`: markup of calls is content. `any`, `tool`: the answer is a call.') })
    .nullish(),
  stream,
  temperature,
  top_p: topP,
  top_k: topK,
  ...reweighting,
  stop_sequences: stops.nullish(),
  output_config: z.unknown().optional().describe('`format` of type `json_schema`: the answer matches the JSON Schema.'),
  metadata: z.unknown().optional().describe("`user_id`: the end user; in Claude Code's format also the session."),
})

const conversation = z.union([
  z.looseObject({
    thread: z
      .looseObject({ type: z.literal('continue'), previous_message_id: z.string() })
      .describe('The answer of this gateway to continue. Its `system`, `tools` and earlier messages apply.'),
    messages: z.array(message).nullish(),
  }),
  z.looseObject({ thread: z.looseObject({ type: z.literal('create') }).nullish(), messages: z.array(message).min(1) }),
])

export const messagesBody = common.extend({ max_tokens: maxTokens }).and(conversation)
/** No answer is sampled, so `max_tokens` is optional. */
export const countTokensBody = common.extend({ max_tokens: maxTokens.optional() }).and(conversation)
