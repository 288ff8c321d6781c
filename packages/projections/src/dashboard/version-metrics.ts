/**
 * The rows of the view `version_metrics` without counting the turns of all versions each time: figures of a version are kept
 * until it has other turns or scores. Counts some versions at a time, so that no statement takes long.
 */
import type { QueryRow } from '../query.ts'
import * as queries from './queries.ts'

type Rows = QueryRow[]
type Counted = { turns: number; scores: number; figures: QueryRow }

/** Versions that one statement counts. */
const AT_ONCE = 40

export class VersionMetrics {
  private readonly policy: string
  private readonly rows: (query: queries.Query) => Promise<Rows>
  private readonly counted = new Map<number, Counted>()

  constructor(policy: string, rows: (query: queries.Query) => Promise<Rows>) {
    this.policy = policy
    this.rows = rows
  }

  /** All columns of the view but the recorded figures, newest version first. Rejects as `rows`; what it has counted stays. */
  async read(): Promise<Rows> {
    const facts = await this.rows(queries.versionFacts(this.policy))
    const sizes = new Map(
      (await this.rows(queries.versionSizes(this.policy))).map((row) => [Number(row['version']), row]),
    )
    const changed = facts
      .map(({ version }) => ({
        version: Number(version),
        turns: Number(sizes.get(Number(version))?.['turns'] ?? 0),
        scores: Number(sizes.get(Number(version))?.['scores'] ?? 0),
      }))
      .filter(({ version, turns, scores }) => {
        const known = this.counted.get(version)
        return known?.turns !== turns || known.scores !== scores
      })
    for (let from = 0; from < changed.length; from += AT_ONCE) {
      const some = changed.slice(from, from + AT_ONCE)
      const query = queries.versionCounts(
        this.policy,
        some.map(({ version }) => version),
      )
      const found = new Map((await this.rows(query)).map((row) => [Number(row['version']), row]))
      // Rows that were added since the sizes were read make the next reading count again.
      for (const { version, turns, scores } of some)
        this.counted.set(version, { turns, scores, figures: found.get(version)! })
    }
    return facts.map((row) => ({ ...row, ...this.counted.get(Number(row['version']))!.figures }))
  }
}
