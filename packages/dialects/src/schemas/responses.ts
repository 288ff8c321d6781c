/** `POST /v1/responses`: what `../responses/request.ts` and its neighbours accept. */
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
const namespace = text('The namespace that the tool is of.')

const message = z.looseObject({
  type: z.literal('message').nullish(),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content,
})
const call = z.looseObject({
  type: z.literal('function_call'),
  name,
  namespace,
  arguments: text('JSON, as the model wrote it.'),
})
const customCall = z.looseObject({
  type: z.literal('custom_tool_call'),
  name,
  namespace,
  input: text('The text that the tool is given.'),
})
const output = z.looseObject({
  type: z.enum(['function_call_output', 'custom_tool_call_output']),
  call_id: text('The call that this is the result of.'),
  output: content,
})
const reference = z
  .union([
    z.looseObject({ type: z.literal('item_reference'), id: z.string() }),
    z.looseObject({ type: z.never().optional(), role: z.never().optional(), id: z.string() }),
  ])
  .describe('An item of an answer of this gateway, by its id.')
const said = z.union([message, call, customCall, output, reference])

const noText = [z.number(), z.boolean(), z.array(z.unknown()), fields] as const
/**
 * Reasoning, searches, images that were made elsewhere: passed over, and a conversation must hold something else too.
 */
const passedOver = z
  .union([
    z.looseObject({
      type: z.union([
        z
          .string()
          .regex(/^(?!(?:message|function_call|custom_tool_call|function_call_output|custom_tool_call_output)$)/),
        ...noText,
      ]),
    }),
    z.looseObject({ type: z.null().optional(), role: z.union([z.null(), ...noText]).optional() }),
  ])
  .describe('Reasoning is read where it belongs to an answer; items of other kinds are passed over.')

const items = z.array(z.union([said, passedOver]))
const { $schema: _, ...contains } = z.toJSONSchema(said)
const someSaid = items.refine((all) => all.some((one) => said.safeParse(one).success)).meta({ contains })

const tool = z.union([
  z.looseObject({ type: z.enum(['function', 'custom']), name }),
  z.looseObject({ type: z.literal('namespace'), name: text('What stands before the names of its tools.') }),
  z
    .looseObject({
      type: z
        .string()
        .regex(/^(?!(?:function|custom|namespace)$)/)
        .nullish(),
    })
    .describe('Runs at a server that is not ours: left out, and named in `x-instar-dropped-tools`.'),
])

export const responsesBody = z
  .looseObject({
    model,
    instructions: text('A system text before everything else.'),
    tools: z.array(tool).nullish(),
    tool_choice: z
      .unknown()
      .optional()
      .describe(
        '`none`: calls stay text. `required`, a named function or `allowed_tools`: the answer is a call, with arguments of its schema. Anything else counts as `auto`.',
      ),
    parallel_tool_calls: z.unknown().optional().describe('`false`: where a call is forced, it is one.'),
    text: z
      .unknown()
      .optional()
      .describe('`format`: `json_object`, or `json_schema` with a JSON Schema: the answer is JSON of it.'),
    stream,
    temperature,
    top_p: topP,
    top_k: topK,
    ...reweighting,
    seed,
    max_output_tokens: tokens('At most so many tokens of answer. Default: what the context has room for.'),
    include: z.unknown().optional().describe('`message.output_text.logprobs`, `reasoning.encrypted_content`.'),
    top_logprobs: integer(0, 20, 'Log-probabilities of so many likely tokens.'),
    conversation: z.null().optional().describe('Refused: `previous_response_id` goes on from an answer.'),
    prompt: z.null().optional().describe('Refused: nothing is stored under such an id here.'),
    user: text('Whoever is behind the request: baselines are kept, and erasing works, by it.'),
    safety_identifier: text('The same, where there is no `user`.'),
  })
  .and(
    z.union([
      z.looseObject({
        previous_response_id: z.string().describe('A response of this gateway that is gone on with.'),
        input: z.union([z.string(), items]).nullish(),
      }),
      z.looseObject({ previous_response_id: z.null().optional(), input: z.union([z.string(), someSaid]) }),
    ]),
  )
