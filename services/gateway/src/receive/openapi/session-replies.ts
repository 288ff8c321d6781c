/** Zod schemas of the dashboard's replies on sessions and turns, and on the gateway. Real replies are held to them (test/flow). */
import { z } from 'zod'

const time = z.iso.datetime()
const figure = z.number().nullable()
const whole = z.int().nullable()
const text = z.string().nullable()
const shown = z.looseObject({ text: z.string(), omitted: z.int().describe('Characters left out in the middle.') })

const next = z.object({ at: time, id: z.string() }).nullable()
const session = z.looseObject({
  session_id: z.string(),
  subject: z.string(),
  key_id: text,
  label_source: z.string(),
  dialect: z.string(),
  started_at: time,
  parent_session_id: text,
})
export const sessionsReply = z.looseObject({
  rows: z.array(
    session.extend({
      last_at: time.nullable(),
      turns: z.int(),
      side_turns: z.int(),
      versions: z.array(z.int()).nullable(),
      agents: z.array(text).nullable(),
      scored: z.int(),
      reward: figure,
      task: text,
      outcome: figure,
      discarded: z.boolean().nullable(),
    }),
  ),
  next,
})
const turn = z.looseObject({
  turn_id: z.string(),
  session_id: z.string(),
  version: z.int(),
  candidate: z.int(),
  candidates: z.int(),
  shown: z.boolean(),
  kind: z.enum(['main', 'side']),
  status: z.string(),
  finish: z.string(),
  trainable: z.boolean(),
  turn_reason: text,
  off_prefix: z.boolean(),
  follows_turn_id: text,
  next_state: z.enum(['open', 'turn', 'none']),
  next_turn_id: text,
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  started_at: time,
  latency_ms: z.number(),
  ttft_ms: z.number(),
  temperature: z.number(),
  agent: text,
  task: text,
  reward: figure,
  judge: text,
  score_reason: text,
  hint: text,
  verdicts: z.array(z.looseObject({ judge: z.string(), value: figure, note: z.string() })).nullable(),
  explicit: z.boolean().nullable(),
  revision: whole,
  batch_id: text,
  used: z.boolean().nullable(),
  drop_reason: text,
  baseline: figure,
  advantage: figure,
  trained_hint: text,
  update_number: whole,
  trained_version: whole,
  feedback: z.array(z.looseObject({ value: z.number(), at: z.string() })).nullable(),
})
export const sessionReply = z.looseObject({
  session: session.extend({ children: z.array(z.string()), all_children: z.int(), agents: z.array(text) }),
  turns: z.looseObject({ rows: z.array(turn), next }),
})
export const turnReply = z.looseObject({
  turn,
  group: z.array(
    z.looseObject({
      turn_id: z.string(),
      candidate: z.int(),
      shown: z.boolean(),
      version: z.int(),
      completion_tokens: z.int(),
      reward: figure,
      hint: text,
      used: z.boolean().nullable(),
      advantage: figure,
    }),
  ),
})

export const turnTextReply = z.looseObject({
  task: z.enum(['title', 'compaction', 'memory']).nullable(),
  omitted: z.int().describe('Earlier messages left out.'),
  messages: z.array(
    z.looseObject({
      role: z.string(),
      name: text,
      content: shown,
      calls: z.array(z.looseObject({ name: z.string(), input: shown })),
    }),
  ),
  answer: shown,
  comments: z.array(z.looseObject({ id: z.string(), value: z.number(), at: time, said: shown })),
})
export const turnTokensReply = z.looseObject({
  prompt: shown,
  prompt_tokens: z.int(),
  exact: z.boolean(),
  omitted: z.int(),
  tokens: z.array(z.looseObject({ id: z.int(), text: z.string(), logprob: figure })),
})
export const turnLogprobsReply = z.looseObject({
  version: z.int(),
  logprobs: z.array(z.number()),
  top: z.array(z.array(z.looseObject({ text: z.string(), logprob: z.number() }))),
})
export const turnLearnedReply = z.looseObject({
  loss: z.string(),
  parent_version: z.int(),
  advantage: z.number(),
  old: z.array(z.number()),
  importance: z.array(z.number()),
  importance_max: z.number(),
  masked: z.boolean(),
  ratio: z.number(),
  ratio_max: z.number(),
  teacher: z.array(z.number()).nullable(),
  hint_dropped: z.boolean(),
  opd_weight: z.number(),
  no_teacher: text,
})
const older = z.object({ at: z.number(), id: z.string() }).nullable()
export const searchReply = z.looseObject({
  hits: z.array(
    z.looseObject({
      session_id: z.string(),
      turn_id: z.string(),
      who: z.string(),
      before: z.string(),
      match: z.string(),
      after: z.string(),
    }),
  ),
  searched: z.int(),
  next: older,
})
export const beginningsReply = z.record(z.string(), z.string())
export const promptsReply = z.looseObject({
  rows: z.array(z.looseObject({ turn_id: z.string(), session_id: z.string(), at: time, asked: z.string() })),
  next: older,
})

const lag = figure
export const nowReply = z.looseObject({
  at: time,
  status: z.string(),
  policy: z.string(),
  head: z.int(),
  serving: whole,
  frozen: z.boolean(),
  last_version: z.int(),
  rejections_in_a_row: z.int(),
  started_at: time.nullable(),
  lag: z.object({ gateway: lag, scorer: lag, trainer: lag, publisher: lag, projections: lag }).describe('Seconds.'),
  gauges: z.record(
    z.string(),
    z.array(z.looseObject({ labels: z.record(z.string(), z.union([z.string(), z.number()])), value: z.number() })),
  ),
  traffic: z.looseObject({ requests: z.number(), prompt_tokens: z.number(), tokens: z.number(), per_token: figure }),
})
export const healthReply = z.looseObject({
  at: time,
  checks: z.array(
    z.looseObject({
      name: z.string(),
      level: z.enum(['ok', 'note', 'unsure', 'wrong']),
      found: z.string(),
      todo: text.optional(),
    }),
  ),
  memory: z.looseObject({ resident: z.int(), heap: z.int(), heap_limit: z.int() }).describe('Bytes.'),
})
export const errorsReply = z.record(
  z.string(),
  z.looseObject({ status: z.int(), meaning: z.string(), todo: z.string() }),
)
export const sessionStateReply = z.looseObject({
  signed_in: z.boolean(),
  may: z.object({ text: z.boolean(), actions: z.boolean() }).nullable(),
  database: z.boolean(),
  keys: z.boolean(),
})
export const sessionBegunReply = z.object({ csrf: z.string() })
export const sessionEndedReply = z.object({ signed_in: z.literal(false) })
