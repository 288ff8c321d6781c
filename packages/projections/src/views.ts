/**
 * Views that join topics, and views of the live lines without branches. The definitions are SQL; the column types are
 * for TypeScript.
 */
import { bigint, boolean, doublePrecision, integer, jsonb, pgView, sql, text } from './drizzle.ts'
import { time } from './tables/time.ts'

/** Scores of the live lines: one row per turn and revision; the last revision counts. */
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

/** Batches with their results. status: sealed, failed, computed (no verdict yet), accepted, rejected. */
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

/**
 * The turns on which a version was trained; for a promotion, those of the update of its branch. The advantage of a turn
 * with an outcome has two parts (docs/learning.md): `outcome_advantage`, the same for all turns of the episode, and
 * `score_advantage`. Both are null where the rows do not tell them apart: every turn of the episode has a score of its
 * own, and no other episode of its task is in the batch.
 */
export const versionTurns = pgView('version_turns', {
  version: integer(),
  turn_id: text(),
  policy: text(),
  reward: doublePrecision(),
  baseline: doublePrecision(),
  advantage: doublePrecision(),
  hint: text(),
  score_id: text(),
  session_id: text(),
  turn_score: doublePrecision(),
  outcome: doublePrecision(),
  closing: text(),
  outcome_advantage: doublePrecision(),
  score_advantage: doublePrecision(),
}).as(sql`
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
) parts`)

/** Changes of the head. `until`: the time of the next change; null: the version is the head now. */
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
 * status: `serving` (the head of a live line), `replayed` (the head of a branch), `superseded` (an ancestor of the
 * head), `rolled_back` (neither).
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
