/** `POST /v1/messages` and `/v1/messages/count_tokens`: what `../messages/request.ts` accepts. */
import { z } from 'zod'
import { model, otherThan, reweighting, stops, stream, temperature, text, textPart, topK, topP } from './fields.ts'

/** A text, as it is or in parts; not of a file. */
const source = z.union([
  z.looseObject({ type: z.literal('text'), data: z.string() }),
  z.looseObject({ type: z.literal('content'), content: z.union([z.string(), z.array(textPart())]) }),
])
const textBlock = z.union([textPart(), z.looseObject({ type: z.literal('document'), source })])
const texts = z.union([z.string(), z.array(textBlock)])

const userBlock = z.union([
  z.looseObject({
    type: z.literal('tool_result'),
    tool_use_id: text('The call that this is the result of.'),
    content: texts.nullish(),
  }),
  textPart('tool_result'),
  z.looseObject({ type: z.literal('document'), source }),
])
const assistantBlock = z.union([
  z.looseObject({ type: z.literal('tool_use'), name: text('The tool that was called.') }),
  z.looseObject({ type: otherThan('tool_use').optional() }),
])

const message = z.union([
  z.looseObject({ role: z.literal('user'), content: z.union([z.string(), z.array(userBlock)]) }),
  z.looseObject({ role: z.literal('assistant'), content: z.union([z.string(), z.array(assistantBlock)]) }),
  z.looseObject({ role: z.literal('system'), content: texts }),
])

const maxTokens = z.int().min(1).describe('At most so many tokens of answer.')

const asked = z.looseObject({
  model,
  system: texts.nullish(),
  tools: z
    .array(
      z.looseObject({ name: z.string(), description: z.unknown().optional(), input_schema: z.unknown().optional() }),
    )
    .nullish()
    .describe(
      "Those without an `input_schema` run at Anthropic's: they are left out, and named in `x-instar-dropped-tools`.",
    ),
  tool_choice: z.looseObject({ type: text('`none`: calls stay text; `any`, `tool`: the answer is a call.') }).nullish(),
  stream,
  temperature,
  top_p: topP,
  top_k: topK,
  ...reweighting,
  stop_sequences: stops.nullish(),
  output_config: z
    .unknown()
    .optional()
    .describe('`format`: `json_schema` with a JSON Schema: the answer is JSON of it.'),
  metadata: z
    .unknown()
    .optional()
    .describe("`user_id`: whoever is behind the request; Claude Code's form names the session too."),
})

const conversation = z.union([
  z.looseObject({
    thread: z
      .looseObject({ type: z.literal('continue'), previous_message_id: z.string() })
      .describe(
        'A message of this gateway that is gone on from; `system`, `tools` and the messages before are its own.',
      ),
    messages: z.array(message).nullish(),
  }),
  z.looseObject({ thread: z.looseObject({ type: z.literal('create') }).nullish(), messages: z.array(message).min(1) }),
])

export const messagesBody = asked.extend({ max_tokens: maxTokens }).and(conversation)
/** An answer is not asked for, so that room for one need not be. */
export const countTokensBody = asked.extend({ max_tokens: maxTokens.optional() }).and(conversation)
