/**
 * The statements of the page Learning, each for `Cached`: they aggregate the newest scores, however long the history. A turn
 * counts once, with its last score among them.
 */
import { LINEAGE, type Query } from './queries.ts'

/** Scores from which the figures are taken: the newest. */
export const WINDOW = 100_000
/** Subjects, and keys, of which there are figures: those with most scores. */
export const CALLERS = 1_000

const newestScores = (columns: string): string => `with newest as materialized (
  select turn_id, revision, at, ${columns} from all_scores where policy = $1 order by at desc limit ${WINDOW}
), scored as (
  select * from newest n where not exists (select from newest z where z.turn_id = n.turn_id and z.revision > 0 and z.revision > n.revision)
)`

/** The times of the first and the last of these scores, both null without any. */
export const scoredSpan = (policy: string): Query => ({
  sql: `select min(at) as first, max(at) as last from (select at from all_scores where policy = $1 order by at desc limit ${WINDOW}) a`,
  values: [policy],
})

/** Rewards are counted in fifths of −1…1; each has its lower bound, the last its upper one. */
export const REWARD_PARTS = 5

/**
 * Scores by interval of `seconds` and by version: of each how many there are (`by` all), and how many of each judge, part of
 * the rewards (0…4) and reason why there is none. `at` null: the row is of a version; `version` null: of an interval.
 */
export const scoresByPart = (policy: string, seconds: number): Query => ({
  sql: `${newestScores('version, reward, judge, reason, hint is not null as hinted')}, parts as (
  select date_bin($2::interval, at, '2000-01-01') as at, version, reward, judge, reason, hinted,
    case when reward is not null then least(${REWARD_PARTS - 1}, floor((reward + 1) / 2 * ${REWARD_PARTS}))::int end as part
  from scored
)
select at, version, case when grouping(judge) = 0 then 'judge' when grouping(reason) = 0 then 'reason' when grouping(part) = 0 then 'reward' else 'all' end as by,
  coalesce(judge, reason, part::text) as name, count(*)::int as count, count(reward)::int as scored,
  avg(reward) as reward, count(*) filter (where hinted and reward is not null)::int as hinted
from parts
group by grouping sets ((at), (at, judge), (at, part), (at, reason), (version), (version, reason))
having grouping(judge) + grouping(reason) + grouping(part) = 3 or coalesce(judge, reason, part::text) is not null
order by at, version`,
  values: [policy, `${seconds} seconds`],
})

/**
 * Turns that the newest batches dropped, by batch and reason; a batch that dropped none has one row without a reason. With
 * `not t.used` the server may read the index of all dropped turns for each batch.
 */
export const dropsByBatch = (policy: string): Query => ({
  sql: `select b.number, b.sealed_at, b.items, v.version, t.reason, count(t.turn_id)::int as count
from (select * from all_batches where policy = $1 order by number desc limit ${LINEAGE}) b
left join all_batch_turns t on t.batch_id = b.batch_id and t.used is not true
left join all_outcomes o on o.batch_id = b.batch_id
left join all_versions v on v.update_id = o.update_id and v.policy = $1
group by b.number, b.sealed_at, b.items, v.version, t.reason order by b.number`,
  values: [policy],
})

/** Callers of each kind whose rewards are told by interval: those with most scores. */
export const CURVES = 20

/**
 * Mean reward by caller and interval of `seconds`, of those callers alone. A key of '' stands for none. `at`: where the
 * interval begins.
 */
export const rewardsByCaller = (
  policy: string,
  seconds: number,
  { subjects, keys }: { subjects: readonly string[]; keys: readonly string[] },
): Query => ({
  sql: `${newestScores('session_id, subject, reward')}, binned as (
  select session_id, subject, reward, date_bin($2::interval, at, '2000-01-01') as at from scored where reward is not null
)
select 'subject' as by, subject as name, at, avg(reward) as reward, count(*)::int as scored
from binned where subject = any($3::text[]) group by subject, at
union all
select 'key' as by, coalesce(s.key_id, '') as name, b.at, avg(b.reward) as reward, count(*)::int as scored
from binned b left join sessions s on s.session_id = b.session_id where coalesce(s.key_id, '') = any($4::text[]) group by s.key_id, b.at
order by by, name, at`,
  values: [policy, `${seconds} seconds`, subjects, keys],
})

/** Scores by subject and by API key, those with most first. A session has one key: that of its first turn. */
export const scoresByCaller = (policy: string): Query => ({
  sql: `${newestScores('session_id, subject, reward, hint is not null as hinted')}, by_session as (
  select session_id, subject, count(*) as count, count(reward) as scored, sum(reward) as sum,
    count(*) filter (where hinted and reward is not null) as hinted, max(at) as at
  from scored group by session_id, subject
), by_caller as (
  select case when grouping(a.subject) = 0 then 'subject' else 'key' end as by, coalesce(a.subject, s.key_id) as name,
    count(*)::int as sessions, sum(a.count)::int as count, sum(a.scored)::int as scored,
    sum(a.sum) / nullif(sum(a.scored), 0)::float8 as reward, sum(a.hinted)::int as hinted, max(a.at) as last_at
  from by_session a left join sessions s on s.session_id = a.session_id
  group by grouping sets ((a.subject), (s.key_id))
), ranked as (
  select *, row_number() over (partition by by order by count desc, name) as place from by_caller
)
select by, name, sessions, count, scored, reward, hinted, last_at from ranked where place <= ${CALLERS} order by by, place`,
  values: [policy],
})
