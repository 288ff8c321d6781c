/** Zod schemas of the dashboard's replies on versions and learning. Real replies are held to them (test/flow). */
import { z } from 'zod'

const time = z.iso.datetime()
const figure = z.number().nullable()
const whole = z.int().nullable()
const text = z.string().nullable()
const counts = z.record(z.string(), z.int())
const figures = z.record(z.string(), z.number()).nullable()

const version = z.looseObject({
  version: z.int(),
  parent: whole,
  sha256: text,
  status: z.enum(['serving', 'superseded', 'rolled_back']),
  why: z.string(),
  published_at: time,
  source_policy: text,
  source_version: whole,
  turns: z.int(),
  side_turns: z.int(),
  aborted: z.int(),
  sessions: z.int(),
  scored: z.int(),
  skipped: z.int(),
  feedback: z.int(),
  reward: figure,
  reward_low: figure,
  reward_high: figure,
  trained_turns: whole,
  trained_reward: figure,
  kl_parent: figure.describe('Nats per token, as `kl_base` and `entropy`.'),
  kl_base: figure,
  content: figure.describe('Share of the gate’s probes.'),
  entropy: figure,
  sampled_length: figure.describe('Mean tokens of the gate’s samples.'),
  repetition: figure,
  loss: figure,
  grad_norm: figure,
  forward_prompt_tokens: figure,
  forward_response_tokens: figure,
  teacher_tokens: figure,
  backward_prompt_tokens: figure,
  backward_response_tokens: figure,
  completion_tokens: figure,
  latency_p50_ms: figure,
  latency_p99_ms: figure,
  head_from: time.nullable(),
  head_to: time.nullable(),
  head_seconds: figure,
})
const update = z.looseObject({
  number: z.int(),
  status: z.enum(['sealed', 'computed', 'accepted', 'rejected', 'failed']),
  reason: text,
  version: whole,
  parent_version: z.int(),
  items: z.int(),
  dropped: z.int(),
  mean_reward: figure,
  sealed_at: time,
  started_at: time.nullable(),
  finished_at: time.nullable(),
  decided_at: time.nullable(),
})
const move = z.looseObject({
  seq: z.int(),
  from_version: whole,
  to_version: z.int(),
  why: z.string(),
  who: z.string(),
  froze: z.boolean(),
  at: time,
  branch: text,
  asked_by: text,
  asked_why: text,
})
const refusal = z.looseObject({
  reason: z.string(),
  parent: z.int(),
  asked_by: z.string(),
  asked_why: z.string(),
  at: time,
  branch: text,
})
const freeze = z.looseObject({ frozen: z.boolean(), why: z.string(), who: z.string(), at: time })
const branch = z.looseObject({
  name: z.string(),
  version: z.int(),
  started_from: whole,
  of_all: z.int(),
  published_at: time,
  figures,
  promoted: z.boolean(),
})
const events = {
  updates: z.array(update),
  moves: z.array(move),
  freezes: z.array(freeze),
  refusals: z.array(refusal),
}
const lineage = { versions: z.array(version), ...events, next: time.nullable().describe('`until` of older ones.') }
export const versionsReply = z.looseObject({
  ...lineage,
  branches: z.array(branch).optional().describe('The newest 50; not with `until`.'),
})
export const latelyReply = z.looseObject({ ...events, judge: text })

const batchTurn = z.looseObject({
  turn_id: z.string(),
  session_id: text,
  subject: text,
  version: whole,
  used: z.boolean(),
  reason: text,
  reward: figure,
  turn_score: figure,
  outcome: figure,
  baseline: figure,
  advantage: figure,
  hint: text.describe('Null without the scope `read`, as all texts.'),
})
export const batchReply = z.looseObject({ rows: z.array(batchTurn), next: whole })
export const versionReply = z.looseObject({
  version: version.extend({ gate_figures: figures, update_figures: figures }),
  limits: figures.describe('Of the gate.'),
  turns: z.array(batchTurn),
  next: whole.describe('`after` of further turns.'),
})

const scored = { scored: z.int(), skipped: z.int(), hinted: z.int(), reward: figure, reasons: counts }
const trained = { dropped: counts, used: z.int() }
const caller = z.looseObject({
  name: text,
  sessions: z.int(),
  count: z.int(),
  scored: z.int(),
  hinted: z.int(),
  reward: figure,
  last_at: time,
})
export const callersReply = z.looseObject({ rows: z.array(caller), next: whole })
const curves = z
  .array(z.looseObject({ name: text, points: z.array(z.tuple([z.int(), z.number(), z.int()])) }))
  .describe('Points: ms since the epoch, mean reward, scores.')
export const learningReply = z.looseObject({
  ...lineage,
  branches: z.array(branch),
  step: z.int().describe('Seconds of an interval.'),
  times: z.array(
    z.looseObject({ at: time, ...scored, judges: counts, rewards: z.array(z.int()).length(5), ...trained }),
  ),
  by_version: z.array(z.looseObject({ version: z.int(), ...scored, ...trained })),
  judges: z.array(z.looseObject({ name: z.string(), count: z.int(), reward: figure })),
  subjects: callersReply,
  keys: callersReply,
  subject_curves: curves,
  key_curves: curves,
})
