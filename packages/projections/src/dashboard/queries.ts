/**
 * The statements of the dashboard on the read model. Each returns at most a page. A page of sessions is read from the newest
 * on by an index; a filter that few sessions meet reads further, until the statement's time limit. Those that aggregate a
 * much of a table (`versionSizes`, those of learning-queries.ts) are for `Cached`. `policy` is always the first parameter.
 */
import { ALL, upTo, type Query, type Span } from './lineage-queries.ts'

export {
  branches,
  freezes,
  lastJudge,
  LINEAGE,
  moves,
  OLDER,
  refusals,
  rejected,
  updates,
  type Query,
  type Span,
} from './lineage-queries.ts'

/** Rows of a page. A query asks for one more, which tells whether there are others. */
export const PAGE = 50
/** Turns of a session, or of a batch, in one answer. */
export const TURNS = 200
/** Versions with what the lineage, the gate and their update say of them, newest first. Reads no turn. */
export const versionFacts = (policy: string, { until, most }: Span = ALL, version: number | null = null): Query => ({
  sql: `with reigns as (
  select to_version as version, at, lead(at) over (order by seq) as until from all_head_moves where policy = $1
), reigned as (
  select version, min(at) as head_from, case when bool_or(until is null) then null else max(until) end as head_to,
    case when bool_or(until is null) then null else sum(extract(epoch from until - at))::float8 end as head_seconds
  from reigns group by version
)
select v.policy, v.version, v.parent, v.sha256, v.status, v.why, v.published_at, v.source_policy, v.source_version,
  b.items as trained_turns, b.mean_reward as trained_reward,
  (v.figures ->> 'kl_parent')::float8 as kl_parent, (v.figures ->> 'kl_base')::float8 as kl_base, (v.figures ->> 'content')::float8 as content,
  (v.figures ->> 'entropy')::float8 as entropy, (v.figures ->> 'length')::float8 as sampled_length, (v.figures ->> 'repetition')::float8 as repetition,
  (o.figures ->> 'loss')::float8 as loss, (o.figures ->> 'policyLoss')::float8 as policy_loss, (o.figures ->> 'opdLoss')::float8 as opd_loss,
  (o.figures ->> 'klLoss')::float8 as kl_loss, (o.figures ->> 'gradNorm')::float8 as grad_norm,
  (o.figures ->> 'forwardPromptTokens')::float8 as forward_prompt_tokens, (o.figures ->> 'forwardResponseTokens')::float8 as forward_response_tokens, (o.figures ->> 'teacherTokens')::float8 as teacher_tokens,
  (o.figures ->> 'backwardPromptTokens')::float8 as backward_prompt_tokens, (o.figures ->> 'backwardResponseTokens')::float8 as backward_response_tokens,
  r.head_from, r.head_to, r.head_seconds
from all_lineage v
left join reigned r on r.version = v.version
left join all_outcomes o on o.update_id = v.update_id
left join all_batches b on b.batch_id = o.batch_id
where v.policy = $1 and ${upTo('v.published_at')} and ($3::int is null or v.version = $3) order by v.version desc limit ${most}`,
  values: [policy, until, version],
})

/** How many turns and scores each version has, from the indexes alone: rows are only added, so others mean new ones. */
export const versionSizes = (policy: string): Query => ({
  sql: `select version, coalesce(t.n, 0) as turns, coalesce(s.n, 0) as scores
from (select version, count(*)::int as n from turns where policy = $1 group by version) t
full join (select version, count(*)::int as n from all_scores where policy = $1 group by version) s using (version) order by version desc`,
  values: [policy],
})

/** The figures of the turns and scores of some versions, as in the view \`version_metrics\`. */
export const versionCounts = (policy: string, versions: readonly number[]): Query => ({
  sql: `with served as (
  select version, count(*) filter (where kind = 'main')::int as turns, count(*) filter (where kind = 'side')::int as side_turns,
    count(*) filter (where status = 'aborted')::int as aborted, count(distinct session_id)::int as sessions,
    avg(prompt_tokens)::float8 as prompt_tokens, avg(completion_tokens)::float8 as completion_tokens,
    percentile_cont(array[0.5, 0.99]) within group (order by latency_ms) as latency,
    percentile_cont(array[0.5, 0.99]) within group (order by ttft_ms) as ttft
  from turns where policy = $1 and version = any($2::int[]) and shown group by version
), beside as (
  select version, count(*)::int as sampled from turns where policy = $1 and version = any($2::int[]) and not shown group by version
), in_force as (
  select distinct on (turn_id) version, reward, explicit from all_scores s
  where policy = $1 and version = any($2::int[])
    and not exists (select from turns t where t.turn_id = s.turn_id and t.policy = $1 and t.version = any($2::int[]) and not t.shown)
  order by turn_id, revision desc
), judged as (
  select version, count(reward)::int as scored, count(*) filter (where reward is null)::int as skipped, count(*) filter (where explicit)::int as feedback,
    avg(reward) as reward, 1.96 * stddev_samp(reward) / sqrt(nullif(count(reward), 0)) as margin
  from in_force group by version
)
select v.version, coalesce(s.turns, 0) as turns, coalesce(s.side_turns, 0) as side_turns, coalesce(s.aborted, 0) as aborted,
  coalesce(s.sessions, 0) as sessions, coalesce(c.sampled, 0) as sampled,
  coalesce(j.scored, 0) as scored, coalesce(j.skipped, 0) as skipped, coalesce(j.feedback, 0) as feedback,
  j.reward, j.reward - j.margin as reward_low, j.reward + j.margin as reward_high,
  s.prompt_tokens, s.completion_tokens, s.latency[1] as latency_p50_ms, s.latency[2] as latency_p99_ms, s.ttft[1] as ttft_p50_ms, s.ttft[2] as ttft_p99_ms
from unnest($2::int[]) v (version)
left join served s on s.version = v.version
left join beside c on c.version = v.version
left join judged j on j.version = v.version`,
  values: [policy, versions],
})

/** All recorded figures of one version. */
export const versionFigures = (policy: string, version: number): Query => ({
  sql: `select o.figures as update_figures, v.figures as gate_figures
from all_versions v left join all_outcomes o on o.update_id = v.update_id where v.policy = $1 and v.version = $2`,
  values: [policy, version],
})

/** Where a page of sessions begins: after this one, in the order of the list. */
export type Cursor = { at: string; id: string }

export type SessionFilter = {
  subject?: string | undefined
  key?: string | undefined
  version?: number | undefined
  dialect?: string | undefined
  /** An agent's or another source of the session's label. */
  source?: string | undefined
  /** The program that sent a turn; `UNKNOWN_AGENT`: one whose record has none. */
  agent?: string | undefined
  reward?: 'positive' | 'negative' | 'none' | undefined
  /** Why a turn was not trained on: of the turn, of its score, or of the batch that dropped it. */
  reason?: string | undefined
  /** Beginning of the id of a session or of a turn. */
  id?: string | undefined
}

const escaped = (text: string): string => text.replace(/[\\%_]/g, '\\$&')

/** The score `a` is the last revision of its turn's. */
const IN_FORCE = `not exists (select from all_scores z where z.policy = a.policy and z.turn_id = a.turn_id and z.revision > a.revision)`

/** How many turns a reason holds for, counted up to `RARE`. */
export const reasonSize = (policy: string, reason: string): Query => ({
  sql: `select (select count(*) from (select from turns where policy = $1 and reason = $2 limit ${RARE}) t)
  + (select count(*) from (select from all_scores where policy = $1 and reason = $2 limit ${RARE}) a)
  + (select count(*) from (select from all_batch_turns where policy = $1 and not used and reason = $2 limit ${RARE}) b) as size`,
  values: [policy, reason],
})

/** A reason of fewer turns is looked up by its index; one of more is met soon on the way through the sessions. */
export const RARE = 2_000

/** Stands in a filter for the turns whose record names no agent. */
export const UNKNOWN_AGENT = 'unknown'

/** How many turns an agent sent, counted up to `RARE`. */
export const agentSize = (policy: string, agent: string): Query => ({
  sql: `select count(*) as size from (select from turns where policy = $1 and ${agent === UNKNOWN_AGENT ? 'agent is null' : 'agent = $2'} limit ${RARE}) t`,
  values: agent === UNKNOWN_AGENT ? [policy] : [policy, agent],
})

/** Whether the reason, and the agent, of a filter are of fewer than `RARE` turns. */
type Rare = { reason: boolean; agent: boolean }
const BOTH_RARE: Rare = { reason: true, agent: true }

/** Sessions, those that began last first, with the figures of their turns. */
export const sessions = (policy: string, filter: SessionFilter, after: Cursor | null, rare = BOTH_RARE): Query => {
  const values: unknown[] = [policy]
  const bind = (value: unknown): string => `$${values.push(value)}`
  const where = ['s.policy = $1']
  if (after) where.push(`(s.started_at, s.session_id) < (${bind(after.at)}::timestamptz, ${bind(after.id)})`)
  if (filter.subject !== undefined) where.push(`s.subject = ${bind(filter.subject)}`)
  if (filter.key !== undefined) where.push(`s.key_id = ${bind(filter.key)}`)
  if (filter.dialect !== undefined) where.push(`s.dialect = ${bind(filter.dialect)}`)
  if (filter.source !== undefined) where.push(`s.label_source = ${bind(filter.source)}`)
  if (filter.version !== undefined)
    where.push(
      `exists (select from turns t where t.session_id = s.session_id and t.policy = $1 and t.version = ${bind(filter.version)})`,
    )
  if (filter.agent !== undefined) {
    const sent = filter.agent === UNKNOWN_AGENT ? 't.agent is null' : `t.agent = ${bind(filter.agent)}`
    where.push(
      rare.agent
        ? `s.session_id in (select t.session_id from turns t where t.policy = $1 and ${sent})`
        : `exists (select from turns t where t.session_id = s.session_id and t.policy = $1 and ${sent})`,
    )
  }
  if (filter.id !== undefined) where.push(`s.session_id like ${bind(`${escaped(filter.id.split('.')[0]!)}%`)}`)
  /** A turn of the session has a score in force of which the condition holds. */
  const scored = (condition: string): string =>
    `exists (select from all_scores a where a.session_id = s.session_id and a.policy = $1 and ${condition} and ${IN_FORCE})`
  if (filter.reward === 'positive') where.push(scored('a.reward > 0'))
  if (filter.reward === 'negative') where.push(scored('a.reward < 0'))
  if (filter.reward === 'none') where.push(scored('a.reward is null'))
  if (filter.reason !== undefined) {
    const reason = bind(filter.reason)
    where.push(
      rare.reason
        ? `s.session_id in (select session_id from turns where policy = $1 and reason = ${reason}
      union all select a.session_id from all_scores a where a.policy = $1 and a.reason = ${reason} and ${IN_FORCE}
      union all select t.session_id from all_batch_turns b join turns t on t.turn_id = b.turn_id where b.policy = $1 and not b.used and b.reason = ${reason})`
        : `exists (select from turns t where t.session_id = s.session_id and (t.reason = ${reason}
      or exists (select from all_batch_turns b where b.turn_id = t.turn_id and not b.used and b.reason = ${reason})
      or exists (select from all_scores a where a.policy = $1 and a.turn_id = t.turn_id and a.reason = ${reason} and ${IN_FORCE})))`,
    )
  }
  return {
    sql: `with page as (
  select s.session_id, s.subject, s.key_id, s.label_source, s.dialect, s.started_at from sessions s
  where ${where.join(' and ')} order by s.started_at desc, s.session_id desc limit ${PAGE + 1}
)
select p.*, n.turns, n.side_turns, n.last_at, n.versions, n.agents, n.scored, n.reward, c.task, c.outcome, c.discarded, l.parent_session_id
from page p
left join lateral (
  select count(*) filter (where t.kind = 'main' and t.shown)::int as turns, count(*) filter (where t.kind = 'side' and t.shown)::int as side_turns, max(t.finished_at) as last_at,
    array_agg(distinct t.version) as versions, array_agg(distinct t.agent) as agents, count(r.reward)::int as scored, avg(r.reward) as reward
  from turns t left join lateral (select reward from all_scores a where a.policy = $1 and a.turn_id = t.turn_id order by revision desc limit 1) r on true
  where t.session_id = p.session_id
) n on true
left join lateral (select max(task) as task, max(outcome) as outcome, bool_or(discarded) as discarded from session_closings c where c.session_id = p.session_id) c on true
left join session_links l on l.session_id = p.session_id
order by p.started_at desc, p.session_id desc`,
    values,
  }
}

export const session = (policy: string, id: string): Query => ({
  sql: `select s.session_id, s.subject, s.key_id, s.label_source, s.dialect, s.started_at, l.parent_session_id,
  array(select session_id from session_links c where c.parent_session_id = s.session_id order by at limit 20) as children,
  (select count(*) from session_links c where c.parent_session_id = s.session_id)::int as all_children,
  array(select distinct t.agent from turns t where t.session_id = s.session_id and t.policy = $1) as agents
from sessions s left join session_links l on l.session_id = s.session_id where s.policy = $1 and s.session_id = $2`,
  values: [policy, id],
})

const TURN = `t.turn_id, t.session_id, t.version, t.group_id, t.candidate, t.candidates, t.shown, t.dialect, t.kind, t.status, t.finish, t.trainable,
  t.reason as turn_reason, t.off_prefix, t.tokens, t.attempt, t.follows_turn_id, t.next_turn_id, t.next_state, t.prompt_tokens, t.completion_tokens,
  t.started_at, t.finished_at, t.ttft_ms, t.latency_ms, t.temperature, t.subject, t.key_id, t.task, t.agent,
  r.reward, r.judge, r.reason as score_reason, r.hint, r.hint_judge, r.verdicts, r.explicit, r.revision,
  b.batch_id, b.used, b.reason as drop_reason, b.baseline, b.advantage, b.outcome, b.hint as trained_hint,
  o.number as update_number, v.version as trained_version,
  f.feedback`

const FACTS = `left join lateral (select reward, judge, reason, hint, hint_judge, verdicts, explicit, revision from all_scores a where a.policy = $1 and a.turn_id = t.turn_id order by revision desc limit 1) r on true
left join lateral (select batch_id, used, reason, baseline, advantage, outcome, hint from all_batch_turns b where b.turn_id = t.turn_id and b.policy = $1 limit 1) b on true
left join all_outcomes o on o.batch_id = b.batch_id and o.policy = $1
left join all_versions v on v.update_id = o.update_id and v.policy = $1
left join lateral (select jsonb_agg(jsonb_build_object('value', value, 'at', at) order by at) as feedback from feedback f where f.turn_id = t.turn_id) f on true`

/** Turns of a session in the order in which they began, after the turn of the cursor. */
export const sessionTurns = (policy: string, id: string, after: Cursor | null): Query => ({
  sql: `select ${TURN} from turns t ${FACTS}
where t.policy = $1 and t.session_id = $2 ${after ? 'and (t.started_at, t.turn_id) > ($3::timestamptz, $4)' : ''}
order by t.started_at, t.turn_id limit ${TURNS + 1}`,
  values: [policy, id, ...(after ? [after.at, after.id] : [])],
})

export const turn = (policy: string, id: string): Query => ({
  sql: `select ${TURN} from turns t ${FACTS} where t.policy = $1 and t.turn_id = $2`,
  values: [policy, id],
})

/** What a batch says of a turn that it trained on, and how the update was computed. */
export const learnedFrom = (policy: string, turn: string): Query => ({
  sql: `select t.reward, t.turn_score, t.outcome, t.advantage, t.hint, b.parent_version, b.loss, b.settings
from all_batch_turns t join all_batches b on b.batch_id = t.batch_id
where t.policy = $1 and t.turn_id = $2 and t.used limit 1`,
  values: [policy, turn],
})

/** The candidates of one request. */
export const group = (policy: string, session: string, id: string): Query => ({
  sql: `select t.turn_id, t.candidate, t.shown, t.version, t.completion_tokens, r.reward, r.hint, b.used, b.advantage from turns t ${FACTS.split('\n').slice(0, 2).join('\n')}
where t.policy = $1 and t.session_id = $2 and t.group_id = $3 order by t.candidate limit 32`,
  values: [policy, session, id],
})

/** The turns of the batch of a version from the one at place `from` on, those that were dropped last. */
export const batchTurns = (policy: string, version: number, from = 0): Query => ({
  sql: `select b.turn_id, b.session_id, b.subject, b.version, b.used, b.reason, b.reward, b.turn_score, b.outcome, b.baseline, b.advantage, b.hint
from all_versions v join all_outcomes o on o.update_id = v.update_id join all_batch_turns b on b.batch_id = o.batch_id
where v.policy = $1 and v.version = $2 order by b.used desc, abs(b.advantage) desc nulls last, b.turn_id limit ${TURNS + 1} offset $3`,
  values: [policy, version, from],
})
