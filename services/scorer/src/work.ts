/**
 * What the scorer has to do, in `/health/ready` and its gauges. `waiting`: turns that no judge has been asked about, `held`: those
 * of them that are held back, since `scoredWaiting` scored turns wait for a batch. `needed`: turns without a score in the partitions of `turns`
 * that it reads. `share`: partitions that are assigned to this process and caught up; `catchingUp`: that are assigned to it
 * and not caught up.
 */
export type ScorerWork = {
  judging: number
  waiting: number
  held: number
  scoredWaiting: number
  needed: number
  share: number
  catchingUp: number
}
