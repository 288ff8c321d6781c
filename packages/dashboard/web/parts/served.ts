/** Figures of versions over time: of the one that served. */
import type { Learning, VersionRow } from '../rows.ts'

/** `at`: ms since the epoch, ascending. */
export type Served = { at: number; row: VersionRow }

/**
 * The version that served from each change of the head on, from `from` to `until`, where the last stands once more. A
 * version that is not in `versions` is left out, and so is what was before the oldest move.
 */
export const served = (
  { versions, moves }: Pick<Learning, 'versions' | 'moves'>,
  from: number,
  until: number,
): Served[] => {
  const byVersion = new Map(versions.map((row) => [row.version, row]))
  const all = moves
    .toSorted((a, b) => a.seq - b.seq)
    .flatMap(({ at, to_version }) => {
      const row = byVersion.get(to_version)
      return row ? [{ at: Date.parse(at), row }] : []
    })
  const before = all.findLast(({ at }) => at <= from)
  const within = [...(before ? [{ ...before, at: from }] : []), ...all.filter(({ at }) => at > from)]
  const last = within.at(-1)
  return last && last.at < until ? [...within, { ...last, at: until }] : within
}
