/**
 * The largest part of a batch's weight that one person has. Without a limit it grows with the length of a person's
 * answers: three turns of sixteen, four times as long as the others, hold 48 % of the loss.
 */

/** Whom a turn counts for: the subject of its request and its API key; null: no limit applies. */
export type Person = { subject?: string | null; key?: string | null }

/** Rounding must not make a share of exactly the limit exceed it. */
const ROUNDING = 1e-12
/** Limits of subjects and keys in turn; a reduced key raises the shares of the subjects of others. */
const ROUNDS = 64

/**
 * Factors (at most 1) of `weights`, one per turn, such that nobody named in `people` has more of the sum than the larger
 * of `share` and their share of the turns: a lone person keeps everything, and nobody's part grows beyond their turns'.
 * A share of 0 is no limit.
 */
export function personScales(weights: readonly number[], people: readonly Person[], share = 0): number[] {
  let scaled = [...weights]
  for (let round = 0; share > 0 && round < ROUNDS; round += 1) {
    const before = scaled
    for (const kind of ['subject', 'key'] as const)
      scaled = withinShares(
        scaled,
        people.map((person) => person[kind] ?? null),
        share,
      )
    if (scaled.every((weight, at) => weight === before[at])) break
  }
  return weights.map((weight, at) => (weight > 0 ? (scaled[at] ?? 0) / weight : 1))
}

/** The largest share of the sum that one name has; 0 without names. */
export function largestShare(weights: readonly number[], names: readonly (string | null)[]): number {
  const groups = groupsOf(weights, names)
  const all = sum(weights)
  return all > 0 ? Math.max(0, ...[...groups.values()].map(({ weight }) => weight / all)) : 0
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

type Group = { weight: number; turns: number }
function groupsOf(weights: readonly number[], names: readonly (string | null)[]): Map<string, Group> {
  const groups = new Map<string, Group>()
  for (const [at, name] of names.entries()) {
    if (name === null) continue
    const { weight, turns } = groups.get(name) ?? { weight: 0, turns: 0 }
    groups.set(name, { weight: weight + (weights[at] ?? 0), turns: turns + 1 })
  }
  return groups
}

/**
 * The weights with each name reduced to its limit. The limits of all names reach at least 1, so that the reduced names
 * have their limits of a sum that the others decide: those furthest beyond their limits are reduced first.
 */
function withinShares(weights: readonly number[], names: readonly (string | null)[], share: number): number[] {
  const limitOf = ({ turns }: Group): number => Math.max(share, turns / weights.length)
  const groups = [...groupsOf(weights, names)].sort(([, a], [, b]) => b.weight / limitOf(b) - a.weight / limitOf(a))
  let [rest, free] = [sum(weights), 1]
  const reduced: [name: string, group: Group][] = []
  for (const [name, group] of groups) {
    if (group.weight <= (limitOf(group) * rest * (1 + ROUNDING)) / free) break
    rest -= group.weight
    free -= limitOf(group)
    reduced.push([name, group])
  }
  const factors = new Map(reduced.map(([name, group]) => [name, (limitOf(group) * rest) / free / group.weight]))
  return weights.map((weight, at) => weight * (factors.get(names[at] ?? '') ?? 1))
}
