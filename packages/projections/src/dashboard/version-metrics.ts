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
  private readonly most: number
  private readonly counted = new Map<number, Counted>()

  constructor(policy: string, rows: (query: queries.Query) => Promise<Rows>, most = queries.LINEAGE) {
    this.policy = policy
    this.most = most
    this.rows = rows
  }

  /** All columns of the view but the recorded figures, newest version first. Rejects as `rows`; what it has counted stays. */
  async read(): Promise<Rows> {
    const facts = await this.rows(queries.versionFacts(this.policy, { until: null, most: this.most }))
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
    await this.count(changed)
    return facts.map((row) => this.withFigures(row))
  }

  /** Versions beyond those of `read`, with their figures as they were when they were first asked for. */
  async older(span: queries.Span): Promise<Rows> {
    return this.known(await this.rows(queries.versionFacts(this.policy, span)))
  }

  /** As `older`. */
  async one(version: number): Promise<QueryRow | null> {
    const facts = await this.rows(queries.versionFacts(this.policy, { until: null, most: 1 }, version))
    return (await this.known(facts))[0] ?? null
  }

  /** `read` counts them again if they are among its own. */
  private async known(facts: Rows): Promise<Rows> {
    const uncounted = facts.map(({ version }) => Number(version)).filter((version) => !this.counted.has(version))
    await this.count(uncounted.map((version) => ({ version, turns: -1, scores: -1 })))
    return facts.map((row) => this.withFigures(row))
  }

  private withFigures(row: QueryRow): QueryRow {
    return { ...row, ...this.counted.get(Number(row['version']))!.figures }
  }

  private async count(changed: readonly { version: number; turns: number; scores: number }[]): Promise<void> {
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
  }
}
