/** The statements of the lineage: updates, moves of the head, freezes, branches, rejected promotions, newest first. */
export type Query = { sql: string; values: readonly unknown[] }

/** Versions, updates and events of the lineage in one answer: the newest; and of one that has older ones. */
export const LINEAGE = 1000
export const OLDER = 200

/** At most `most` rows, the newest of those up to this time; null: of all. */
export type Span = { until: string | null; most: number }
export const ALL: Span = { until: null, most: LINEAGE }
/** `$2`: the end of the span. */
export const upTo = (column: string): string => `($2::timestamptz is null or ${column} <= $2)`

/** Promotions that the gate rejected: of updates of branches. */
export const refusals = (policy: string, { until, most }: Span = ALL): Query => ({
  sql: `select r.reason, r.parent, r.asked_by, r.asked_why, r.at, substr(o.policy, length($1) + 2) as branch
from (select * from all_rejections where policy = $1 and asked_by is not null and ${upTo('at')} order by at desc limit ${most}) r
left join all_outcomes o on o.update_id = r.update_id and o.policy <> $1
order by r.at desc`,
  values: [policy, until],
})

/** The judge of the newest score that no person gave, among the newest 100 scores. */
export const lastJudge = (policy: string): Query => ({
  sql: `select judge from (select judge, explicit, at from all_scores where policy = $1 order by at desc limit 100) s
where judge is not null and not explicit order by at desc limit 1`,
  values: [policy],
})

const BRANCHES = 50

export const updates = (policy: string, { until, most }: Span = ALL): Query => ({
  sql: `select number, status, reason, version, parent_version, items, dropped, mean_reward, sealed_at, started_at, finished_at, decided_at
from updates where policy = $1 and ${upTo('sealed_at')} order by number desc limit ${most}`,
  values: [policy, until],
})

/** The update of this number that the gate rejected: its adapter, and since when that may be on the log. */
export const rejected = (policy: string, number: number): Query => ({
  sql: `select r.adapter, coalesce(o.started_at, b.sealed_at) as since
from all_batches b join all_outcomes o on o.batch_id = b.batch_id join all_rejections r on r.update_id = o.update_id
where b.policy = $1 and b.number = $2 and o.policy = $1 and r.policy = $1 limit 1`,
  values: [policy, number],
})

export const moves = (policy: string, { until, most }: Span = ALL): Query => ({
  sql: `select m.seq, m.from_version, m.to_version, m.why, m.who, m.froze, m.at, v.asked_by, v.asked_why, substr(v.source_policy, length($1) + 2) as branch
from (select * from head_moves where policy = $1 and ${upTo('at')} order by seq desc limit ${most}) m
left join all_versions v on v.policy = $1 and v.version = m.to_version and m.who = 'publisher' and m.why = 'promotion'
order by m.seq desc`,
  values: [policy, until],
})

export const freezes = (policy: string, { until, most }: Span = ALL): Query => ({
  sql: `select frozen, why, who, at from all_freezes where policy = $1 and ${upTo('at')} order by at desc limit ${most}`,
  values: [policy, until],
})

/** Branches, those with the newest version first: their last version, whether that was promoted, from which version of the line they start, and how many there are. */
export const branches = (policy: string): Query => ({
  sql: `select substr(b.policy, length($1) + 2) as name, b.version, b.published_at, b.figures,
  case when l.parent_policy is null then 0 when l.parent_policy = $1 then l.parent_version end as started_from,
  exists (select from all_versions v where v.policy = $1 and v.source_policy = b.policy and v.source_version = b.version) as promoted,
  (count(*) over ())::int as of_all
from (select distinct on (policy) policy, version, published_at, figures from all_versions where starts_with(policy, $1 || '~') order by policy, version desc) b
join lines l on l.policy = b.policy
order by b.published_at desc limit ${BRANCHES}`,
  values: [policy],
})
