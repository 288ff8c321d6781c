/** The body of `POST /v1/chat/completions`, as `../chat/request.ts` accepts it. */
import { z } from 'zod'
import {
  fields,
  flag,
  integer,
  model,
  reweighting,
  seed,
  stop,
  stops,
  stream,
  temperature,
  text,
  textPart,
  tokens,
  topK,
  topP,
} from './fields.ts'

const part = z.union([textPart(), z.looseObject({ type: z.literal('refusal') })])
const content = z
  .union([z.string(), z.array(part)])
  .describe(
    'A string or a list of text parts; refusals are ignored. Images and files if the engine accepts them (INSTAR_ENGINE_ACCEPTS).',
  )
const calls = z.array(fields).nullish()

const message = z.union([
  z.looseObject({ role: z.literal('user'), content, tool_calls: calls }),
  z.looseObject({
    role: z.enum(['system', 'developer', 'assistant', 'tool', 'function']),
    content: content.nullish(),
    tool_calls: calls,
  }),
])

/** The deprecated predecessor of `tools`; ignored if `tools` is set. */
const functions = z.union([
  z.looseObject({ tools: z.array(fields) }),
  z.looseObject({ tools: z.null().optional(), functions: z.array(z.looseObject({ name: z.string() })).nullish() }),
])

export const chatBody = z
  .looseObject({
    model,
    messages: z.array(message).min(1),
    tools: z.array(fields).nullish().describe('Functions with a JSON Schema, passed to the chat template.'),
    tool_choice: z
      .unknown()
      .optional()
      .describe(
        '`none`: markup of calls is content. `required`, a named function or `allowed_tools`: the answer is a call whose arguments match its schema. Any other value: `auto`.',
      ),
    parallel_tool_calls: z.unknown().optional().describe('`false`: a forced answer has one call.'),
    response_format: z
      .unknown()
      .optional()
      .describe(
        '`json_object`: the answer is a JSON object. `json_schema`: the answer matches the JSON Schema; schemas with unsupported keywords are refused.',
      ),
    stream,
    stream_options: z.looseObject({ include_usage: flag('The last chunk contains the usage.') }).nullish(),
    n: integer(1, 16, 'Number of candidates. Each is a turn; all of them are one group.'),
    temperature,
    top_p: topP,
    top_k: topK,
    ...reweighting,
    seed,
    max_completion_tokens: tokens('Maximum number of tokens of the answer. Default: the rest of the context.'),
    max_tokens: tokens('Deprecated; `max_completion_tokens` takes precedence.'),
    stop: z.union([stop, stops]).nullish(),
    logprobs: flag('Log-probabilities of the sampled tokens.'),
    top_logprobs: integer(0, 20, 'Number of most likely tokens whose log-probabilities are returned.'),
    user: text('The end user. Reward baselines and erasure are per user.'),
  })
  .and(functions)
