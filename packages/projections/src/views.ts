/** What spans topics, and the live lines without the branches. Definitions are SQL; types are for readers. */
import { sql } from 'drizzle-orm'
import { bigint, boolean, doublePrecision, integer, jsonb, pgView, text } from 'drizzle-orm/pg-core'
import { time } from './tables/time.ts'

/** Scores of the live lines: one row per turn and revision, the last is in force. */
export const scores = pgView('scores', {
  turn_id: text(),
  revision: integer(),
  reward: doublePrecision(),
  judge: text(),
  hint: text(),
  reason: text(),
  hint_judge: text(),
  policy: text(),
  session_id: text(),
  version: integer(),
  subject: text(),
  explicit: boolean(),
  verdicts: jsonb(),
  cause: text(),
  at: time(),
  record_id: text(),
}).as(sql`
select turn_id, revision, reward, judge, hint, reason, hint_judge, policy, session_id, version, subject, explicit, verdicts, cause, at, record_id
from all_scores where strpos(policy, '~') = 0`)

const updateColumns = () => ({
  policy: text(),
  number: integer(),
  batch_id: text(),
  update_id: text(),
  status: text(),
  reason: text(),
  version: integer(),
  parent_version: integer(),
  sha256: text(),
  items: integer(),
  dropped: integer(),
  mean_reward: doublePrecision(),
  loss: text(),
  seed: bigint({ mode: 'number' }),
  settings: jsonb(),
  figures: jsonb(),
  gate_figures: jsonb(),
  fingerprint: jsonb(),
  sealed_at: time(),
  started_at: time(),
  finished_at: time(),
  decided_at: time(),
})

/** Batches with what came of them. status: sealed, failed, computed (waits for the gate), accepted, rejected. */
export const allUpdates = pgView('all_updates', updateColumns()).as(sql`
select b.policy, b.number, b.batch_id, o.update_id,
  case when v.version is not null then 'accepted' when r.record_id is not null then 'rejected'
    when o.failure is not null then 'failed' when o.update_id is not null then 'computed' else 'sealed' end as status,
  coalesce(o.failure, r.reason) as reason, v.version, b.parent_version, o.adapter as sha256, b.items, b.dropped, b.mean_reward, b.loss, b.seed, b.settings,
  o.figures, coalesce(v.figures, r.figures) as gate_figures, o.fingerprint, b.sealed_at, o.started_at, o.finished_at, coalesce(v.published_at, r.at) as decided_at
from all_batches b
left join all_outcomes o on o.batch_id = b.batch_id and o.policy = b.policy
left join all_versions v on v.update_id = o.update_id and v.policy = b.policy
left join all_rejections r on r.update_id = o.update_id and r.policy = b.policy`)

export const updates = pgView('updates', updateColumns()).as(
  sql`select * from all_updates where strpos(policy, '~') = 0`,
)

/** The turns that the update behind a version was trained on. A promotion's are those of its branch's update. */
export const versionTurns = pgView('version_turns', {
  version: integer(),
  turn_id: text(),
  policy: text(),
  reward: doublePrecision(),
  baseline: doublePrecision(),
  advantage: doublePrecision(),
  hint: text(),
  score_id: text(),
}).as(sql`
select v.version, t.turn_id, v.policy, t.reward, t.baseline, t.advantage, t.hint, t.score_id
from all_versions v
join all_outcomes o on o.update_id = v.update_id
join all_batch_turns t on t.batch_id = o.batch_id and t.used
where strpos(v.policy, '~') = 0`)

/** Changes of the head, with the end of each served interval (`until` null: it still serves). */
export const headMoves = pgView('head_moves', {
  policy: text(),
  seq: integer(),
  from_version: integer(),
  to_version: integer(),
  why: text(),
  who: text(),
  froze: boolean(),
  request: text(),
  at: time(),
  until: time(),
  record_id: text(),
}).as(sql`
select policy, seq, from_version, to_version, why, who, froze, request, at, lead(at) over (partition by policy order by seq) as until, record_id
from all_head_moves where strpos(policy, '~') = 0`)

/**
 * status: `serving` (the head; of a branch `replayed`), `superseded` (an ancestor of the head),
 * `rolled_back` (not on the head's lineage).
 */
export const allLineage = pgView('all_lineage', {
  policy: text(),
  version: integer(),
  parent: integer(),
  sha256: text(),
  status: text(),
  why: text(),
  source_policy: text(),
  source_version: integer(),
  update_id: text(),
  adapter_bytes: bigint({ mode: 'number' }),
  figures: jsonb(),
  published_at: time(),
  record_id: text(),
}).as(sql`
with recursive heads as (
  select distinct on (policy) policy, to_version as version from all_head_moves order by policy, seq desc
), lineage as (
  select policy, version from heads
  union
  select l.policy, v.parent from lineage l join all_versions v on v.policy = l.policy and v.version = l.version where v.parent is not null
)
select v.policy, v.version, v.parent, v.sha256,
  case when h.version is not null then case when strpos(v.policy, '~') = 0 then 'serving' else 'replayed' end
    when l.version is not null then 'superseded' else 'rolled_back' end as status,
  v.why, v.source_policy, v.source_version, v.update_id, v.adapter_bytes, v.figures, v.published_at, v.record_id
from all_versions v
left join heads h on h.policy = v.policy and h.version = v.version
left join lineage l on l.policy = v.policy and l.version = v.version`)

export const versions = pgView('versions', {
  version: integer(),
  parent: integer(),
  sha256: text(),
  status: text(),
  policy: text(),
  why: text(),
  source_policy: text(),
  source_version: integer(),
  update_id: text(),
  adapter_bytes: bigint({ mode: 'number' }),
  figures: jsonb(),
  published_at: time(),
  record_id: text(),
}).as(sql`
select version, parent, sha256, status, policy, why, source_policy, source_version, update_id, adapter_bytes, figures, published_at, record_id
from all_lineage where strpos(policy, '~') = 0`)

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
 * One row per version of every line. `reward` is the mean of the scores in force of the turns that the version
 * answered and that were shown (`sampled` counts the others); low and high are its 95 % interval (mean ± 1.96 s/√n),
 * null below two scores.
 * The gate's figures (kl_parent … repetition) and the update's (loss … grad_norm) are as recorded; all of them are in
 * `gate_figures` and `update_figures`. `head_from` is when it served first, `head_to` when it last stopped (null: it
 * serves).
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

/** Sessions with the counts of their turns so far. */
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
}).as(sql`
with in_force as (
  select distinct on (turn_id) turn_id, reward from scores order by turn_id, revision desc
)
select s.session_id, s.policy, s.subject, s.label_source, s.dialect, s.started_at, max(t.finished_at) as last_at,
  count(*) filter (where t.kind = 'main')::int as turns, count(*) filter (where t.kind = 'side')::int as side_turns,
  count(f.reward)::int as scored, avg(f.reward) as reward
from sessions s join turns t on t.session_id = s.session_id and t.shown left join in_force f on f.turn_id = t.turn_id
group by s.session_id`)
