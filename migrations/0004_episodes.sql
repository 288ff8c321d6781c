CREATE TABLE "session_closings" (
	"record_id" text PRIMARY KEY NOT NULL,
	"session_id" text NOT NULL,
	"why" text NOT NULL,
	"closed" integer NOT NULL,
	"discarded" boolean NOT NULL,
	"outcome" double precision,
	"task" text,
	"key_id" text,
	"at" timestamp(3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "turns" ADD COLUMN "task" text;--> statement-breakpoint
ALTER TABLE "all_batch_turns" ADD COLUMN "turn_score" double precision;--> statement-breakpoint
ALTER TABLE "all_batch_turns" ADD COLUMN "outcome" double precision;--> statement-breakpoint
ALTER TABLE "all_batch_turns" ADD COLUMN "closing" text;--> statement-breakpoint
CREATE INDEX "session_closings_session" ON "session_closings" USING btree ("session_id");--> statement-breakpoint
CREATE OR REPLACE VIEW "public"."session_metrics" AS (
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
group by s.session_id, e.task, e.outcome, e.discarded);--> statement-breakpoint
CREATE OR REPLACE VIEW "public"."version_turns" AS (
select version, turn_id, policy, reward, baseline, advantage, hint, score_id, session_id, turn_score, outcome, closing, outcome_advantage,
  case when outcome is null then advantage when turn_score is not null then advantage - outcome_advantage end as score_advantage
from (
  select v.version, t.turn_id, v.policy, t.reward, t.baseline, t.advantage, t.hint, t.score_id, t.session_id, t.turn_score, t.outcome, t.closing,
    case when t.outcome is null then null when t.turn_score is null then t.advantage else coalesce((
      select case when count(*) > 1 then t.outcome - avg(e.outcome) end from (
        select distinct s.session_id, s.outcome
        from session_closings c
        join all_batch_turns s on s.batch_id = t.batch_id and s.outcome is not null
        join session_closings d on d.record_id = s.closing and d.task = c.task and d.key_id is not distinct from c.key_id
        where c.record_id = t.closing and c.task <> ''
      ) e
    ), (
      select min(s.advantage) from all_batch_turns s where s.batch_id = t.batch_id and s.closing = t.closing and s.turn_score is null
    )) end as outcome_advantage
  from all_versions v
  join all_outcomes o on o.update_id = v.update_id
  join all_batch_turns t on t.batch_id = o.batch_id and t.used
  where strpos(v.policy, '~') = 0
) parts);