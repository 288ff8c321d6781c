DROP VIEW "public"."version_metrics";--> statement-breakpoint
DROP VIEW "public"."all_version_metrics";--> statement-breakpoint
CREATE VIEW "public"."all_version_metrics" AS (
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
left join all_batches b on b.batch_id = o.batch_id);--> statement-breakpoint
CREATE VIEW "public"."version_metrics" AS (select * from all_version_metrics where strpos(policy, '~') = 0);