/** Where the versions of the line, and the branches of replays, stand in the timeline. */
import type { BranchRow, RefusalRow, VersionRow } from '../rows.ts'

/** `x`: steps from the left. `lane`: 0 is that of the head. */
export type Placed = { row: VersionRow; x: number; lane: number }

/**
 * A version stands one step after the version before it. It stays in its parent's lane if it is the parent's only child
 * or an ancestor of the head, and else gets a lane of its own below.
 */
export const placed = (rows: readonly VersionRow[]): Placed[] => {
  const sorted = rows.toSorted((a, b) => a.version - b.version)
  const byVersion = new Map(sorted.map((row) => [row.version, row]))
  const main = new Set<number>()
  for (
    let row = sorted.find(({ status }) => status === 'serving');
    row;
    row = row.parent === null ? undefined : byVersion.get(row.parent)
  )
    main.add(row.version)
  const lanes = new Map<number, number>()
  let last = 0
  return sorted.map((row, x) => {
    const parent = row.parent === null ? undefined : lanes.get(row.parent)
    const own = main.has(row.version)
      ? 0
      : parent !== undefined &&
          parent > 0 &&
          !sorted.some((other) => other.parent === row.parent && other.version < row.version)
        ? parent
        : (last += 1)
    lanes.set(row.version, own)
    return { row, x, lane: own }
  })
}

/** `from` null: the version from which it starts is not drawn. `xs`: its versions; the last is at the end. */
export type PlacedBranch = { row: BranchRow; from: Placed | null; xs: number[]; lane: number }

/** Branches that are drawn, the newest, and versions of one. */
export const [BRANCHES, OF_BRANCH] = [8, 20]

/** Each branch has a lane of its own below the versions, and begins one step after the version from which it starts. */
export const placedBranches = (versions: readonly Placed[], branches: readonly BranchRow[]): PlacedBranch[] => {
  const at = new Map(versions.map((one) => [one.row.version, one]))
  const below = Math.max(0, ...versions.map(({ lane }) => lane))
  return branches.slice(0, BRANCHES).map((row, i) => {
    const from = at.get(row.started_from ?? -1) ?? null
    const first = (from?.x ?? -1) + 1
    const xs = Array.from({ length: Math.min(OF_BRANCH, Math.max(1, row.version)) }, (_, n) => first + n)
    return { row, from, xs, lane: below + 1 + i }
  })
}

/** What became of a branch, in words. */
export const branchStatus = (
  { name, version, promoted }: BranchRow,
  refusals: readonly Pick<RefusalRow, 'branch'>[],
): string => {
  if (promoted) return 'promoted'
  if (refusals.some(({ branch }) => branch === name)) return 'promotion rejected'
  return version === 0 ? 'no version yet' : 'not promoted'
}
