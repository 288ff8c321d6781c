/** Zod schemas of the gateway's own requests and responses. The dialects' are in @instar/dialects/schemas. */
import {
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
  topK,
  topP,
} from '@instar/dialects/schemas/fields'
import { DIALECT_NAMES } from '@instar/events'
import { z } from 'zod'
import { MOST_COMMENT } from '../../capture/core/comment.ts'

const said = {
  value: z.union([z.boolean(), z.number().min(-1).max(1)]).describe('true is 1, false is −1.'),
  comment: z.string().max(MOST_COMMENT).nullish().describe('In words; kept on the log, never in logs of the process.'),
  user: text('Who says so, as in the request that the turn answered.'),
}

export const feedbackBody = z.union([
  z.looseObject({
    turn_id: z
      .string()
      .describe('`x-instar-turn-id` of the answer, or the id in its body: the answer’s (`chatcmpl-…`), a tool call’s.'),
    session_id: text('One of the two is enough.'),
    ...said,
  }),
  z.looseObject({
    turn_id: z.null().optional(),
    session_id: z.string().describe('The session: its last turn is meant.'),
    ...said,
  }),
])
export const feedbackReply = z.looseObject({
  id: z.string(),
  session_id: z.string(),
  turn_id: z.string().nullable(),
  value: z.number(),
})
const ids = z.array(z.int().min(0)).min(1)
const oneText = z.string().min(1)
export const completionBody = z.looseObject({
  model,
  prompt: z
    .union([
      oneText,
      ids,
      z
        .array(z.union([oneText, ids]))
        .min(1)
        .max(128),
    ])
    .describe('A text or ids of tokens, or several of them.'),
  n: integer(1, 16, 'Choices for each prompt.'),
  best_of: z.int().nullish().describe('As `n`: no choice is kept back.'),
  max_tokens: integer(0, Number.MAX_SAFE_INTEGER, 'Default: 16. 0 with `echo` alone.'),
  temperature,
  top_p: topP,
  top_k: topK,
  seed,
  stream,
  stream_options: z.looseObject({ include_usage: flag('A last chunk with the tokens used.') }).nullish(),
  stop: z.union([stop, stops]).nullish(),
  logprobs: integer(0, 20, 'Log-probabilities of the tokens, and of so many likely ones at each place.'),
  echo: flag('The prompt comes first, with the log-probabilities of its tokens.'),
  suffix: z.literal('').nullish(),
  ...reweighting,
})
export const embeddingBody = z.looseObject({
  model: text('As the engine names it; `policy` or absent: the model that answers.'),
  input: z.union([
    oneText,
    ids,
    z
      .array(z.union([oneText, ids]))
      .min(1)
      .max(2048),
  ]),
  dimensions: integer(1, Number.MAX_SAFE_INTEGER, 'Of each embedding.'),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  user: text('Whoever is behind the request.'),
})
export const closingBody = z.looseObject({
  reward: z
    .union([z.boolean(), z.number().min(-1).max(1)])
    .nullish()
    .describe('The outcome of the session as an episode: true is 1, false -1. The same again changes nothing.'),
  task_id: text('Episodes of one task are compared with each other. Default: `x-instar-task-id` of its requests.'),
  discarded: flag('The episode is aborted: none of its turns is trained on.'),
})
export const closingReply = z.looseObject({
  session_id: z.string(),
  closed: z.array(z.string()).describe('Turns that waited for what follows.'),
})

const order = {
  request: text('An id of your own: the same one again changes nothing.'),
  who: text('Recorded. Default: the key, or the header `x-instar-who`.'),
  why: text('Recorded.'),
}
export const rollbackBody = z.looseObject({
  version: z.int().min(0).max(1e9),
  keepLearning: flag('Otherwise learning is frozen in the same record.'),
  ...order,
})
export const freezeBody = z.looseObject(order)
export const servedBody = z.looseObject({})
export const promoteBody = z.union([
  z.looseObject({ branch: z.string(), name: z.unknown().optional(), who: order.who, why: order.why }),
  z.looseObject({ branch: z.null().optional(), name: z.string(), who: order.who, why: order.why }),
])
export const replayBody = z.looseObject({
  branch: z.string(),
  from: z.string().optional().describe('A version (`3`) or a time.'),
  until: z.string().optional().describe('A version or a time.'),
  set: z.looseObject({}).optional().describe('Settings of the trainer that are to be others.'),
  judge: z.string().optional().describe('`reactions` or `llm`: score anew.'),
  checkpoint: z
    .string()
    .optional()
    .describe('Start from a checkpoint of the audit: `newest`, or the beginning of its record’s id.'),
})
export const commandReply = z.looseObject({
  head: z.int(),
  version: z.int().describe('What this gateway serves now.'),
  frozen: z.boolean(),
})

const card = z.looseObject({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  root: z.string(),
  parent: z.string().nullable(),
  max_model_len: z.int(),
  type: z.literal('model'),
  display_name: z.string(),
  created_at: z.iso.datetime(),
  lifecycle: z.literal('active'),
  max_input_tokens: z.int(),
  max_tokens: z.int(),
})
export const modelReply = card
export const modelsReply = z.looseObject({
  object: z.literal('list'),
  data: z.array(card),
  has_more: z.literal(false),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
})

export const liveReply = z.looseObject({ status: z.literal('live') })
export const proofReply = z.looseObject({ proof: z.string() })
export const readyReply = z.looseObject({
  status: z.enum(['ready', 'degraded']),
  version: z.int().nullable(),
  head: z.int(),
  problem: z.unknown(),
})
export const unreadyReply = z.looseObject({ status: z.string(), problem: z.unknown() })
export const requestsReply = z.array(
  z.looseObject({
    at: z.string(),
    dialect: z.enum(DIALECT_NAMES),
    client: z.string().nullable(),
    carried: z.array(z.string()),
    session: z.string(),
    label_source: z.string(),
    user_turn: z.string().nullable(),
    kind: z.enum(['main', 'side']),
    turn: z.string(),
    messages: z.int(),
    tools: z.int(),
    off_prefix: z.boolean(),
    status: z.enum(['complete', 'aborted']).nullable(),
    trainable: z.boolean().nullable(),
    reason: z.string().nullable(),
    follows: z.string().nullable(),
    next: z.string().nullable(),
  }),
)
export const statusReply = z.looseObject({
  status: z.string(),
  policy: z.string(),
  head: z.int(),
  serving: z.int().nullable(),
  frozen: z.boolean(),
  versions: z.array(z.int()),
  model: z.looseObject({ name: z.string(), sha256: z.string(), contextLength: z.int() }),
})
export const itemsReply = z.looseObject({
  object: z.literal('list'),
  data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
})
export const responseTokensReply = z.looseObject({ object: z.literal('response.input_tokens'), input_tokens: z.int() })
export const tokensReply = z.looseObject({ input_tokens: z.int() })

/** OpenAI's shape. The Messages API wraps the same code in its own. */
export const fault = z.looseObject({ error: z.looseObject({ message: z.string(), type: z.string() }) })

export const sessionBody = z.object({ code: z.string().max(200).optional() })
export const agentKeyBody = z.looseObject({ name: z.string().min(1).max(100).optional() })
export const agentKeyReply = z.object({
  id: z.string(),
  token: z.string().describe('Given once: the gateway keeps its hash.'),
  scopes: z.array(z.string()),
})
export const linkReply = z.object({ path: z.string(), expires_in: z.int() })
