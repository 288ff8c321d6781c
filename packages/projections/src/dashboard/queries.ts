/**
 * The statements of the dashboard on the read model. Each returns at most a page. A page of sessions is read from the newest
 * on by an index; a filter that few sessions meet reads further, until the statement's time limit. Those that aggregate a
 * whole table (`metrics`, `rewardsOverTime`, `counts`) are for `Cached`. `policy` is always the first parameter.
 */

export type Query = { sql: string; values: readonly unknown[] }

/** Rows of a page. A query asks for one more, which tells whether there are others. */
export const PAGE = 50
/** Turns of a session, or of a batch, in one answer. */
export const TURNS = 200
/** Versions, updates and events of the lineage in one answer: the newest. */
export const LINEAGE = 1000

export const metrics = (policy: string): Query => ({
  sql: `select * from version_metrics where policy = $1 order by version desc limit ${LINEAGE}`,
  values: [policy],
})

export const updates = (policy: string): Query => ({
  sql: `select number, status, reason, version, parent_version, items, dropped, mean_reward, loss, figures, gate_figures, sealed_at, started_at, finished_at, decided_at
from updates where policy = $1 order by number desc limit ${LINEAGE}`,
  values: [policy],
})

export const moves = (policy: string): Query => ({
  sql: `select seq, from_version, to_version, why, who, froze, at from head_moves where policy = $1 order by seq desc limit ${LINEAGE}`,
  values: [policy],
})

export const freezes = (policy: string): Query => ({
  sql: `select frozen, why, who, at from all_freezes where policy = $1 order by at desc limit ${LINEAGE}`,
  values: [policy],
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
  reward?: 'positive' | 'negative' | 'none' | undefined
  /** Why a turn was not trained on: of the turn, of its score, or of the batch that dropped it. */
  reason?: string | undefined
  /** Beginning of the id of a session or of a turn. */
  id?: string | undefined
}

const escaped = (text: string): string => text.replace(/[\\%_]/g, '\\$&')

/** Sessions, those that began last first, with the figures of their turns. */
export const sessions = (policy: string, filter: SessionFilter, after: Cursor | null): Query => {
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
  if (filter.id !== undefined) where.push(`s.session_id like ${bind(`${escaped(filter.id.split('.')[0]!)}%`)}`)
  const scored = (condition: string): string =>
    `exists (select from turns t join lateral (select reward, reason from all_scores a where a.policy = $1 and a.turn_id = t.turn_id order by revision desc limit 1) r on true
      where t.session_id = s.session_id and ${condition})`
  if (filter.reward === 'positive') where.push(scored('r.reward > 0'))
  if (filter.reward === 'negative') where.push(scored('r.reward < 0'))
  if (filter.reward === 'none') where.push(scored('r.reward is null'))
  if (filter.reason !== undefined) {
    const reason = bind(filter.reason)
    where.push(`(exists (select from turns t where t.session_id = s.session_id and t.reason = ${reason})
      or ${scored(`r.reason = ${reason}`)}
      or exists (select from turns t join all_batch_turns b on b.turn_id = t.turn_id and not b.used and b.reason = ${reason} where t.session_id = s.session_id))`)
  }
  return {
    sql: `with page as (
  select s.session_id, s.subject, s.key_id, s.label_source, s.dialect, s.started_at from sessions s
  where ${where.join(' and ')} order by s.started_at desc, s.session_id desc limit ${PAGE + 1}
)
select p.*, n.turns, n.side_turns, n.last_at, n.versions, n.scored, n.reward, c.task, c.outcome, c.discarded, l.parent_session_id
from page p
left join lateral (
  select count(*) filter (where t.kind = 'main' and t.shown)::int as turns, count(*) filter (where t.kind = 'side' and t.shown)::int as side_turns, max(t.finished_at) as last_at,
    array_agg(distinct t.version) as versions, count(r.reward)::int as scored, avg(r.reward) as reward
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
  array(select session_id from session_links c where c.parent_session_id = s.session_id order by at limit 20) as children
from sessions s left join session_links l on l.session_id = s.session_id where s.policy = $1 and s.session_id = $2`,
  values: [policy, id],
})

const TURN = `t.turn_id, t.session_id, t.version, t.group_id, t.candidate, t.candidates, t.shown, t.dialect, t.kind, t.status, t.finish, t.trainable,
  t.reason as turn_reason, t.off_prefix, t.tokens, t.attempt, t.follows_turn_id, t.next_turn_id, t.next_state, t.prompt_tokens, t.completion_tokens,
  t.started_at, t.finished_at, t.ttft_ms, t.latency_ms, t.temperature, t.subject, t.key_id, t.task,
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

/** The candidates of one request. */
export const group = (policy: string, session: string, id: string): Query => ({
  sql: `select t.turn_id, t.candidate, t.shown, t.version, t.completion_tokens, r.reward from turns t ${FACTS.split('\n')[0]!}
where t.policy = $1 and t.session_id = $2 and t.group_id = $3 order by t.candidate limit 32`,
  values: [policy, session, id],
})

/** The turns of the batch of a version, those that were dropped last. */
export const batchTurns = (policy: string, version: number): Query => ({
  sql: `select b.turn_id, b.session_id, b.subject, b.version, b.used, b.reason, b.reward, b.turn_score, b.outcome, b.baseline, b.advantage, b.hint
from all_versions v join all_outcomes o on o.update_id = v.update_id join all_batch_turns b on b.batch_id = o.batch_id
where v.policy = $1 and v.version = $2 order by b.used desc, abs(b.advantage) desc nulls last, b.turn_id limit ${TURNS}`,
  values: [policy, version],
})

/** Rewards by interval of `seconds`: the newest 200. */
export const rewardsOverTime = (policy: string, seconds: number): Query => ({
  sql: `select date_bin($2::interval, a.at, '2000-01-01') as at, count(reward)::int as scored, avg(reward) as reward, count(*) filter (where reward is null)::int as skipped,
  count(*) filter (where hint is not null)::int as hinted
from all_scores a where policy = $1 group by 1 order by 1 desc limit 200`,
  values: [policy, `${seconds} seconds`],
})

/** How often each value of a column occurs, the most frequent first. */
export const counts = (policy: string, of: 'judge' | 'reason' | 'subject' | 'dropped' | 'reward'): Query => {
  const from =
    of === 'dropped'
      ? `select reason as name, null::float8 as reward from all_batch_turns where policy = $1 and not used`
      : of === 'reward'
        ? `select round(reward::numeric, 1)::text as name, reward from all_scores where policy = $1 and reward is not null`
        : `select ${of} as name, reward from all_scores where policy = $1 and ${of} is not null`
  return {
    sql: `select name, count(*)::int as count, avg(reward) as reward from (${from}) rows group by name order by count desc, name limit 30`,
    values: [policy],
  }
}

/** How far the read model has read each topic. */
