/** What a score says of its turn: a part of three record types (records.ts). */

/**
 * What a batch needs of a scored turn, as its record and the records before the score say. `record`: id of the turn's record, at
 * whose time `at` it is found on the log. `unusable`: why no batch may use it (incomplete, not trainable, discarded); null if
 * one may. `begunAt`: time of the first turn of its session. `earlier`: times of the turns to which its prompt and its body
 * refer, and those to which these refer; null: its record was not read. Times in ms since the epoch; the rest as in `TurnFacts`.
 */
export type ScoredFacts = {
  record: string
  group: string
  candidates: number
  /** False for a candidate that was sampled in the background. */
  shown: boolean
  key: string | null
  task: string | null
  unusable: string | null
  begunAt: number
  at: number
  finishedAt: number
  earlier: readonly number[] | null
}
