/** Views with the metrics of versions and sessions. The definitions are SQL; the column types are for TypeScript. */
import { boolean, doublePrecision, integer, jsonb, pgView, sql, text } from './drizzle.ts'
import { time } from './tables/time.ts'

const metricColumns = () => ({
  policy: text(),
  version: integer(),
  parent: integer(),
  sha256: text(),
  status: text(),
  why: text(),
  published_at: time(),
  turns: integer(),
  side_turns: integer(),
  aborted: integer(),
  sessions: integer(),
  sampled: integer(),
  scored: integer(),
  skipped: integer(),
  feedback: integer(),
  reward: doublePrecision(),
  reward_low: doublePrecision(),
  reward_high: doublePrecision(),
  trained_turns: integer(),
  trained_reward: doublePrecision(),
  kl_parent: doublePrecision(),
  kl_base: doublePrecision(),
  content: doublePrecision(),
  entropy: doublePrecision(),
  sampled_length: doublePrecision(),
  repetition: doublePrecision(),
  loss: doublePrecision(),
  policy_loss: doublePrecision(),
  opd_loss: doublePrecision(),
  kl_loss: doublePrecision(),
  grad_norm: doublePrecision(),
  forward_prompt_tokens: doublePrecision(),
  forward_response_tokens: doublePrecision(),
  teacher_tokens: doublePrecision(),
  backward_prompt_tokens: doublePrecision(),
  backward_response_tokens: doublePrecision(),
  prompt_tokens: doublePrecision(),
  completion_tokens: doublePrecision(),
  latency_p50_ms: doublePrecision(),
  latency_p99_ms: doublePrecision(),
  ttft_p50_ms: doublePrecision(),
  ttft_p99_ms: doublePrecision(),
  head_from: time(),
  head_to: time(),
  head_seconds: doublePrecision(),
  update_figures: jsonb(),
  gate_figures: jsonb(),
})

/**
 * One row per version of every line. `reward`: the mean of the scores that count, over the turns that the version
 * answered and that were shown (`sampled`: number of the others). `reward_low`, `reward_high`: its 95 % confidence
 * interval, mean ± 1.96 s/√n; null for fewer than two scores. The columns kl_parent to repetition are figures of the
 * gate, loss to backward_response_tokens those of the update (tokens of its passes: null before they were recorded); all recorded figures are in `gate_figures` and `update_figures`.
 * `head_from`: when the version first became the head; `head_to`: when it last ceased to be the head (null: it is the
 * head).
 */
export const allVersionMetrics = pgView('all_version_metrics', metricColumns()).as(sql`
with served as (
  select policy, version, count(*) filter (where kind = 'main')::int as turns, count(*) filter (where kind = 'side')::int as side_turns,
    count(*) filter (where status = 'aborted')::int as aborted, count(distinct session_id)::int as sessions,
    avg(prompt_tokens)::float8 as prompt_tokens, avg(completion_tokens)::float8 as completion_tokens,
    percentile_cont(array[0.5, 0.99]) within group (order by latency_ms) as latency,
    percentile_cont(array[0.5, 0.99]) within group (order by ttft_ms) as ttft
  from turns where shown group by policy, version
), beside as (
  select policy, version, count(*)::int as sampled from turns where not shown group by policy, version
), in_force as (
  select distinct on (policy, turn_id) policy, version, reward, explicit from all_scores s
  where not exists (select from turns t where t.turn_id = s.turn_id and not t.shown) order by policy, turn_id, revision desc
), judged as (
  select policy, version, count(reward)::int as scored, count(*) filter (where reward is null)::int as skipped, count(*) filter (where explicit)::int as feedback,
    avg(reward) as reward, 1.96 * stddev_samp(reward) / sqrt(nullif(count(reward), 0)) as margin
  from in_force group by policy, version
), reigns as (
  select policy, to_version as version, at, lead(at) over (partition by policy order by seq) as until from all_head_moves
), reigned as (
  select policy, version, min(at) as head_from, case when bool_or(until is null) then null else max(until) end as head_to,
    case when bool_or(until is null) then null else sum(extract(epoch from until - at))::float8 end as head_seconds
  from reigns group by policy, version
)
select v.policy, v.version, v.parent, v.sha256, v.status, v.why, v.published_at,
  coalesce(s.turns, 0) as turns, coalesce(s.side_turns, 0) as side_turns, coalesce(s.aborted, 0) as aborted, coalesce(s.sessions, 0) as sessions, coalesce(c.sampled, 0) as sampled,
  coalesce(j.scored, 0) as scored, coalesce(j.skipped, 0) as skipped, coalesce(j.feedback, 0) as feedback,
  j.reward, j.reward - j.margin as reward_low, j.reward + j.margin as reward_high,
  b.items as trained_turns, b.mean_reward as trained_reward,
  (v.figures ->> 'kl_parent')::float8 as kl_parent, (v.figures ->> 'kl_base')::float8 as kl_base, (v.figures ->> 'content')::float8 as content,
  (v.figures ->> 'entropy')::float8 as entropy, (v.figures ->> 'length')::float8 as sampled_length, (v.figures ->> 'repetition')::float8 as repetition,
  (o.figures ->> 'loss')::float8 as loss, (o.figures ->> 'policyLoss')::float8 as policy_loss, (o.figures ->> 'opdLoss')::float8 as opd_loss,
  (o.figures ->> 'klLoss')::float8 as kl_loss, (o.figures ->> 'gradNorm')::float8 as grad_norm,
  (o.figures ->> 'forwardPromptTokens')::float8 as forward_prompt_tokens, (o.figures ->> 'forwardResponseTokens')::float8 as forward_response_tokens, (o.figures ->> 'teacherTokens')::float8 as teacher_tokens,
  (o.figures ->> 'backwardPromptTokens')::float8 as backward_prompt_tokens, (o.figures ->> 'backwardResponseTokens')::float8 as backward_response_tokens,
  s.prompt_tokens, s.completion_tokens, s.latency[1] as latency_p50_ms, s.latency[2] as latency_p99_ms, s.ttft[1] as ttft_p50_ms, s.ttft[2] as ttft_p99_ms,
  r.head_from, r.head_to, r.head_seconds, o.figures as update_figures, v.figures as gate_figures
from all_lineage v
left join served s on s.policy = v.policy and s.version = v.version
left join beside c on c.policy = v.policy and c.version = v.version
left join judged j on j.policy = v.policy and j.version = v.version
left join reigned r on r.policy = v.policy and r.version = v.version
left join all_outcomes o on o.update_id = v.update_id
left join all_batches b on b.batch_id = o.batch_id`)

export const versionMetrics = pgView('version_metrics', metricColumns()).as(
  sql`select * from all_version_metrics where strpos(policy, '~') = 0`,
)

/**
 * Sessions with the numbers of their turns and scores, and their mean reward, of own scores. Of an episode: `task` ('':
 * not known), `outcome`; `discarded`: it was aborted, so that its turns before that are not used for training.
 */
export const sessionMetrics = pgView('session_metrics', {
  session_id: text(),
  policy: text(),
  subject: text(),
  label_source: text(),
  dialect: text(),
  started_at: time(),
  last_at: time(),
  turns: integer(),
  side_turns: integer(),
  scored: integer(),
  reward: doublePrecision(),
  task: text(),
  outcome: doublePrecision(),
  discarded: boolean(),
}).as(sql`
with in_force as (
  select distinct on (turn_id) turn_id, reward from scores order by turn_id, revision desc
), ended as (
  select session_id, max(task) as task, max(outcome) as outcome, bool_or(discarded) as discarded from session_closings group by session_id
)
select s.session_id, s.policy, s.subject, s.label_source, s.dialect, s.started_at, max(t.finished_at) as last_at,
  count(*) filter (where t.kind = 'main')::int as turns, count(*) filter (where t.kind = 'side')::int as side_turns,
  count(f.reward)::int as scored, avg(f.reward) as reward,
  coalesce(e.task, max(t.task)) as task, e.outcome, coalesce(e.discarded, false) as discarded
from sessions s join turns t on t.session_id = s.session_id and t.shown left join in_force f on f.turn_id = t.turn_id
left join ended e on e.session_id = s.session_id
group by s.session_id, e.task, e.outcome, e.discarded`)
