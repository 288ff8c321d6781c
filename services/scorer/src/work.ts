/**
 * What the scorer has to do, in `/health/ready` and its gauges. `needed`: turns without a score in the partitions of `turns`
 * that it reads. `share`: partitions that are assigned to this process and caught up; `catchingUp`: that are assigned to it
 * and not caught up.
 */
export type ScorerWork = { judging: number; waiting: number; needed: number; share: number; catchingUp: number }
