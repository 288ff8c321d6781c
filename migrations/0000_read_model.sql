CREATE TABLE "ignored" (
	"topic" text NOT NULL,
	"key" text NOT NULL,
	"record_id" text NOT NULL,
	"type" text NOT NULL,
	"why" text NOT NULL,
	"partition" integer NOT NULL,
	"position" bigint NOT NULL,
	CONSTRAINT "ignored_topic_partition_position_pk" PRIMARY KEY("topic","partition","position")
);
--> statement-breakpoint
CREATE TABLE "offsets" (
	"topic" text NOT NULL,
	"partition" integer NOT NULL,
	"next_offset" bigint NOT NULL,
	"last_record_id" text NOT NULL,
	"rules" integer NOT NULL,
	CONSTRAINT "offsets_topic_partition_pk" PRIMARY KEY("topic","partition")
);
--> statement-breakpoint
CREATE TABLE "all_scores" (
	"policy" text NOT NULL,
	"turn_id" text NOT NULL,
	"revision" integer NOT NULL,
	"session_id" text NOT NULL,
	"version" integer NOT NULL,
	"subject" text NOT NULL,
	"reward" double precision,
	"judge" text,
	"reason" text,
	"hint" text,
	"hint_judge" text,
	"verdicts" jsonb NOT NULL,
	"cause" text NOT NULL,
	"explicit" boolean NOT NULL,
	"at" timestamp(3) with time zone NOT NULL,
	"record_id" text NOT NULL,
	CONSTRAINT "all_scores_policy_turn_id_revision_pk" PRIMARY KEY("policy","turn_id","revision")
);
--> statement-breakpoint
CREATE TABLE "feedback" (
	"feedback_id" text PRIMARY KEY NOT NULL,
	"turn_id" text NOT NULL,
	"session_id" text NOT NULL,
	"value" double precision NOT NULL,
	"subject" text NOT NULL,
	"key_id" text,
	"at" timestamp(3) with time zone NOT NULL,
	"record_id" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"session_id" text PRIMARY KEY NOT NULL,
	"policy" text NOT NULL,
	"subject" text NOT NULL,
	"key_id" text,
	"label_source" text NOT NULL,
	"dialect" text NOT NULL,
	"first_turn_id" text NOT NULL,
	"started_at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "turns" (
	"turn_id" text PRIMARY KEY NOT NULL,
	"session_id" text NOT NULL,
	"policy" text NOT NULL,
	"version" integer NOT NULL,
	"adapter" text,
	"group_id" text NOT NULL,
	"candidate" integer NOT NULL,
	"candidates" integer NOT NULL,
	"dialect" text NOT NULL,
	"kind" text NOT NULL,
	"label_source" text NOT NULL,
	"subject" text NOT NULL,
	"key_id" text,
	"status" text NOT NULL,
	"finish" text NOT NULL,
	"trainable" boolean NOT NULL,
	"reason" text,
	"off_prefix" boolean NOT NULL,
	"tokens" text NOT NULL,
	"attempt" integer NOT NULL,
	"follows_turn_id" text,
	"next_turn_id" text,
	"next_state" text NOT NULL,
	"prompt_tokens" integer NOT NULL,
	"completion_tokens" integer NOT NULL,
	"started_at" timestamp(3) with time zone NOT NULL,
	"first_token_at" timestamp(3) with time zone NOT NULL,
	"finished_at" timestamp(3) with time zone NOT NULL,
	"ttft_ms" double precision NOT NULL,
	"latency_ms" double precision NOT NULL,
	"temperature" double precision NOT NULL,
	"engine" text NOT NULL,
	"digest" text NOT NULL,
	"record_id" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "all_batch_turns" (
	"batch_id" text NOT NULL,
	"turn_id" text NOT NULL,
	"policy" text NOT NULL,
	"used" boolean NOT NULL,
	"reason" text,
	"session_id" text,
	"subject" text,
	"version" integer,
	"turn_record_id" text,
	"score_id" text,
	"reward" double precision,
	"baseline" double precision,
	"advantage" double precision,
	"hint" text,
	CONSTRAINT "all_batch_turns_batch_id_turn_id_pk" PRIMARY KEY("batch_id","turn_id")
);
--> statement-breakpoint
CREATE TABLE "all_batches" (
	"batch_id" text PRIMARY KEY NOT NULL,
	"policy" text NOT NULL,
	"number" integer NOT NULL,
	"parent_version" integer NOT NULL,
	"parent_adapter" text,
	"items" integer NOT NULL,
	"dropped" integer NOT NULL,
	"mean_reward" double precision,
	"loss" text NOT NULL,
	"seed" bigint NOT NULL,
	"settings" jsonb NOT NULL,
	"sealed_at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "all_outcomes" (
	"update_id" text PRIMARY KEY NOT NULL,
	"policy" text NOT NULL,
	"batch_id" text NOT NULL,
	"number" integer NOT NULL,
	"adapter" text,
	"adapter_bytes" bigint,
	"state" text,
	"state_bytes" bigint,
	"failure" text,
	"fingerprint" jsonb,
	"figures" jsonb NOT NULL,
	"started_at" timestamp(3) with time zone,
	"finished_at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "all_freezes" (
	"record_id" text PRIMARY KEY NOT NULL,
	"policy" text NOT NULL,
	"frozen" boolean NOT NULL,
	"why" text NOT NULL,
	"who" text NOT NULL,
	"request" text NOT NULL,
	"at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "all_head_moves" (
	"policy" text NOT NULL,
	"seq" integer NOT NULL,
	"from_version" integer,
	"to_version" integer NOT NULL,
	"why" text NOT NULL,
	"who" text NOT NULL,
	"froze" boolean NOT NULL,
	"request" text,
	"at" timestamp(3) with time zone NOT NULL,
	"record_id" text NOT NULL,
	CONSTRAINT "all_head_moves_policy_seq_pk" PRIMARY KEY("policy","seq")
);
--> statement-breakpoint
CREATE TABLE "all_rejections" (
	"record_id" text PRIMARY KEY NOT NULL,
	"policy" text NOT NULL,
	"update_id" text NOT NULL,
	"adapter" text NOT NULL,
	"parent" integer NOT NULL,
	"reason" text NOT NULL,
	"figures" jsonb NOT NULL,
	"evidence" jsonb NOT NULL,
	"at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "all_versions" (
	"policy" text NOT NULL,
	"version" integer NOT NULL,
	"parent" integer,
	"sha256" text,
	"adapter_bytes" bigint,
	"state" text,
	"update_id" text,
	"why" text NOT NULL,
	"source_policy" text,
	"source_version" integer,
	"figures" jsonb NOT NULL,
	"published_at" timestamp(3) with time zone NOT NULL,
	"record_id" text NOT NULL,
	CONSTRAINT "all_versions_policy_version_pk" PRIMARY KEY("policy","version")
);
--> statement-breakpoint
CREATE TABLE "lines" (
	"policy" text PRIMARY KEY NOT NULL,
	"mode" text NOT NULL,
	"base_name" text NOT NULL,
	"base_sha256" text NOT NULL,
	"parent_policy" text,
	"parent_version" integer,
	"settings" jsonb NOT NULL,
	"started_at" timestamp(3) with time zone NOT NULL,
	"record_id" text NOT NULL
);
--> statement-breakpoint
CREATE INDEX "feedback_turn" ON "feedback" USING btree ("turn_id");--> statement-breakpoint
CREATE INDEX "turns_session" ON "turns" USING btree ("session_id");--> statement-breakpoint
CREATE INDEX "turns_version" ON "turns" USING btree ("policy","version");--> statement-breakpoint
CREATE INDEX "all_batch_turns_turn" ON "all_batch_turns" USING btree ("turn_id");--> statement-breakpoint
CREATE INDEX "all_batches_policy" ON "all_batches" USING btree ("policy","number");--> statement-breakpoint
CREATE INDEX "all_outcomes_batch" ON "all_outcomes" USING btree ("batch_id");--> statement-breakpoint
CREATE INDEX "all_rejections_update" ON "all_rejections" USING btree ("update_id");--> statement-breakpoint
CREATE INDEX "all_versions_update" ON "all_versions" USING btree ("update_id");--> statement-breakpoint
CREATE VIEW "public"."all_lineage" AS (
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
left join lineage l on l.policy = v.policy and l.version = v.version);--> statement-breakpoint
CREATE VIEW "public"."all_updates" AS (
select b.policy, b.number, b.batch_id, o.update_id,
  case when v.version is not null then 'accepted' when r.record_id is not null then 'rejected'
    when o.failure is not null then 'failed' when o.update_id is not null then 'computed' else 'sealed' end as status,
  coalesce(o.failure, r.reason) as reason, v.version, b.parent_version, o.adapter as sha256, b.items, b.dropped, b.mean_reward, b.loss, b.seed, b.settings,
  o.figures, coalesce(v.figures, r.figures) as gate_figures, o.fingerprint, b.sealed_at, o.started_at, o.finished_at, coalesce(v.published_at, r.at) as decided_at
from all_batches b
left join all_outcomes o on o.batch_id = b.batch_id and o.policy = b.policy
left join all_versions v on v.update_id = o.update_id and v.policy = b.policy
left join all_rejections r on r.update_id = o.update_id and r.policy = b.policy);--> statement-breakpoint
CREATE VIEW "public"."all_version_metrics" AS (
with served as (
  select policy, version, count(*) filter (where kind = 'main')::int as turns, count(*) filter (where kind = 'side')::int as side_turns,
    count(*) filter (where status = 'aborted')::int as aborted, count(distinct session_id)::int as sessions,
    avg(prompt_tokens)::float8 as prompt_tokens, avg(completion_tokens)::float8 as completion_tokens,
    percentile_cont(array[0.5, 0.99]) within group (order by latency_ms) as latency,
    percentile_cont(array[0.5, 0.99]) within group (order by ttft_ms) as ttft
  from turns group by policy, version
), in_force as (
  select distinct on (policy, turn_id) policy, version, reward, explicit from all_scores order by policy, turn_id, revision desc
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
  coalesce(s.turns, 0) as turns, coalesce(s.side_turns, 0) as side_turns, coalesce(s.aborted, 0) as aborted, coalesce(s.sessions, 0) as sessions,
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
left join judged j on j.policy = v.policy and j.version = v.version
left join reigned r on r.policy = v.policy and r.version = v.version
left join all_outcomes o on o.update_id = v.update_id
left join all_batches b on b.batch_id = o.batch_id);--> statement-breakpoint
CREATE VIEW "public"."head_moves" AS (
select policy, seq, from_version, to_version, why, who, froze, request, at, lead(at) over (partition by policy order by seq) as until, record_id
from all_head_moves where strpos(policy, '~') = 0);--> statement-breakpoint
CREATE VIEW "public"."scores" AS (
select turn_id, revision, reward, judge, hint, reason, hint_judge, policy, session_id, version, subject, explicit, verdicts, cause, at, record_id
from all_scores where strpos(policy, '~') = 0);--> statement-breakpoint
CREATE VIEW "public"."session_metrics" AS (
with in_force as (
  select distinct on (turn_id) turn_id, reward from scores order by turn_id, revision desc
)
select s.session_id, s.policy, s.subject, s.label_source, s.dialect, s.started_at, max(t.finished_at) as last_at,
  count(*) filter (where t.kind = 'main')::int as turns, count(*) filter (where t.kind = 'side')::int as side_turns,
  count(f.reward)::int as scored, avg(f.reward) as reward
from sessions s join turns t on t.session_id = s.session_id left join in_force f on f.turn_id = t.turn_id
group by s.session_id);--> statement-breakpoint
CREATE VIEW "public"."updates" AS (select * from all_updates where strpos(policy, '~') = 0);--> statement-breakpoint
CREATE VIEW "public"."version_metrics" AS (select * from all_version_metrics where strpos(policy, '~') = 0);--> statement-breakpoint
CREATE VIEW "public"."version_turns" AS (
select v.version, t.turn_id, v.policy, t.reward, t.baseline, t.advantage, t.hint, t.score_id
from all_versions v
join all_outcomes o on o.update_id = v.update_id
join all_batch_turns t on t.batch_id = o.batch_id and t.used
where strpos(v.policy, '~') = 0);--> statement-breakpoint
CREATE VIEW "public"."versions" AS (
select version, parent, sha256, status, policy, why, source_policy, source_version, update_id, adapter_bytes, figures, published_at, record_id
from all_lineage where strpos(policy, '~') = 0);