/** The body of `POST /v1/responses`, as `../responses` accepts it. */
import { z } from 'zod'
import {
  fields,
  integer,
  model,
  reweighting,
  seed,
  stream,
  temperature,
  text,
  textPart,
  tokens,
  topK,
  topP,
} from './fields.ts'

const part = z.union([textPart(), z.looseObject({ type: z.literal('refusal') })])
const content = z.union([z.string(), z.array(part)]).nullish()
const name = z.string()
const namespace = text('The namespace of the tool.')

const message = z.looseObject({
  type: z.literal('message').nullish(),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content,
})
const call = z.looseObject({
  type: z.literal('function_call'),
  name,
  namespace,
  arguments: text('JSON, as the model sampled it.'),
})
const customCall = z.looseObject({
  type: z.literal('custom_tool_call'),
  name,
  namespace,
  input: text('The input of the tool.'),
})
const output = z.looseObject({
  type: z.enum(['function_call_output', 'custom_tool_call_output']),
  call_id: text('The id of the call.'),
  output: content,
})
const reference = z
  .union([
    z.looseObject({ type: z.literal('item_reference'), id: z.string() }),
    z.looseObject({ type: z.never().optional(), role: z.never().optional(), id: z.string() }),
  ])
  .describe('The id of an output item of this gateway.')
const readItem = z.union([message, call, customCall, output, reference])

const notString = [z.number(), z.boolean(), z.array(z.unknown()), fields] as const
/** Items that are no messages: reasoning, and types that are ignored. A conversation must also contain another item. */
const otherItem = z
  .union([
    z.looseObject({
      type: z.union([
        z
          .string()
          .regex(/^(?!(?:message|function_call|custom_tool_call|function_call_output|custom_tool_call_output)$)/),
        ...notString,
      ]),
    }),
    z.looseObject({ type: z.null().optional(), role: z.union([z.null(), ...notString]).optional() }),
  ])
  .describe('Reasoning belongs to the answer that follows it; items of other types are ignored.')

const items = z.array(z.union([readItem, otherItem]))
const { $schema: _, ...contains } = z.toJSONSchema(readItem)
const conversationItems = items.refine((all) => all.some((item) => readItem.safeParse(item).success)).meta({ contains })

const tool = z.union([
  z.looseObject({ type: z.enum(['function', 'custom']), name }),
  z.looseObject({ type: z.literal('namespace'), name: text("The prefix of its tools' names.") }),
  z
    .looseObject({
      type: z
        .string()
        .regex(/^(?!(?:function|custom|namespace)$)/)
        .nullish(),
    })
    .describe('A tool hosted by OpenAI: it is dropped and listed in `x-instar-dropped-tools`.'),
])

export const responsesBody = z
  .looseObject({
    model,
    instructions: text('The system message.'),
    tools: z.array(tool).nullish(),
    tool_choice: z
      .unknown()
      .optional()
      .describe(
        '`none`: markup of calls is content. `required`, a named function or `allowed_tools`: the answer is a call whose arguments match its schema. Any other value: `auto`.',
      ),
    parallel_tool_calls: z.unknown().optional().describe('`false`: a forced answer has one call.'),
    text: z
      .unknown()
      .optional()
      .describe(
        '`format` of type `json_object`: the answer is a JSON object; `json_schema`: it matches the JSON Schema.',
      ),
    stream,
    temperature,
    top_p: topP,
    top_k: topK,
    ...reweighting,
    seed,
    max_output_tokens: tokens('Maximum number of tokens of the answer. Default: the rest of the context.'),
    include: z.unknown().optional().describe('`message.output_text.logprobs`, `reasoning.encrypted_content`.'),
    top_logprobs: integer(0, 20, 'Number of most likely tokens whose log-probabilities are returned.'),
    conversation: z.null().optional().describe('Not supported; use `previous_response_id`.'),
    prompt: z.null().optional().describe('Not supported; use `instructions` and `input`.'),
    user: text('The end user. Reward baselines and erasure are per user.'),
    safety_identifier: text('The end user, if `user` is absent.'),
  })
  .and(
    z.union([
      z.looseObject({
        previous_response_id: z.string().describe('The response of this gateway to continue.'),
        input: z.union([z.string(), items]).nullish(),
      }),
      z.looseObject({ previous_response_id: z.null().optional(), input: z.union([z.string(), conversationItems]) }),
    ]),
  )
