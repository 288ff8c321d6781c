/** `POST /v1/chat/completions`: what `../chat/request.ts` accepts. */
import { z } from 'zod'
import {
  fields,
  flag,
  integer,
  model,
  reweighting,
  seed,
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
    'A text, or parts that are texts; a refusal says nothing to a model. Images and files where the engine is said to take them (INSTAR_ENGINE_ACCEPTS).',
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

/** The deprecated predecessor of `tools`, ignored beside them. */
const functions = z.union([
  z.looseObject({ tools: z.array(fields) }),
  z.looseObject({ tools: z.null().optional(), functions: z.array(z.looseObject({ name: z.string() })).nullish() }),
])

export const chatBody = z
  .looseObject({
    model,
    messages: z.array(message).min(1),
    tools: z.array(fields).nullish().describe('As chat templates take them: functions with a JSON Schema.'),
    tool_choice: z
      .unknown()
      .optional()
      .describe(
        '`none`: calls stay text. `required`, a named function or `allowed_tools`: the answer is a call, with arguments of its schema. Anything else counts as `auto`.',
      ),
    parallel_tool_calls: z.unknown().optional().describe('`false`: where a call is forced, it is one.'),
    response_format: z
      .unknown()
      .optional()
      .describe(
        '`json_object`, or `json_schema` with a JSON Schema: the answer is JSON of it. A keyword that is not followed is refused.',
      ),
    stream,
    stream_options: z.looseObject({ include_usage: flag('A last chunk with the tokens used.') }).nullish(),
    n: integer(1, 16, 'Candidates. Each is a turn; together they are a group.'),
    temperature,
    top_p: topP,
    top_k: topK,
    ...reweighting,
    seed,
    max_completion_tokens: tokens('At most so many tokens of answer. Default: what the context has room for.'),
    max_tokens: tokens('The older name; the other one outranks it.'),
    stop: z.union([z.string().min(1), stops]).nullish(),
    logprobs: flag('Log-probabilities of the sampled tokens.'),
    top_logprobs: integer(0, 20, 'And of so many likely ones.'),
    user: text('Whoever is behind the request: baselines are kept, and erasing works, by it.'),
  })
  .and(functions)
