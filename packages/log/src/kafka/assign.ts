/** Assigns partitions to members evenly, with as few moves as possible. */

/** `held`: what it was last given, in which generation of the group. */
export type Member = { id: string; generation: number; held: readonly number[] }

/**
 * Every partition below `partitions` gets exactly one owner, and the counts differ by at most one. When two members
 * claim a partition, because one was away, the later generation wins.
 */
export const assign = (members: readonly Member[], partitions: number): Map<string, number[]> => {
  const claimants = members.toSorted((a, b) => b.generation - a.generation || (a.id < b.id ? -1 : 1))
  const shares = new Map(claimants.map(({ id }) => [id, [] as number[]]))
  const free: number[] = []
  for (let partition = 0; partition < partitions; partition++) {
    const holder = claimants.find(({ held }) => held.includes(partition))
    if (holder) shares.get(holder.id)!.push(partition)
    else free.push(partition)
  }
  const even = Math.floor(partitions / members.length)
  // The members with most partitions keep the remainder, so that it does not move.
  const byLoad = [...shares].toSorted(([a, of], [b, other]) => other.length - of.length || (a < b ? -1 : 1))
  const quotas = new Map(byLoad.map(([id], i) => [id, even + (i < partitions % members.length ? 1 : 0)]))
  for (const [id, share] of byLoad) free.push(...share.splice(quotas.get(id)!))
  for (const [id, share] of byLoad) {
    share.push(...free.splice(0, quotas.get(id)! - share.length))
    share.sort((a, b) => a - b)
  }
  return shares
}
