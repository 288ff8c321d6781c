/**
 * What the scorer has to do, in `/health/ready` and its gauges. `needed`: turns without a score, whoever's.
 * `share`: partitions of `turns` that are assigned to this process.
 */
export type ScorerWork = { judging: number; waiting: number; needed: number; share: number }
