/** Assigns partitions to group members evenly, with as few moves as possible. */

/**
 * `held`: the partitions of its last assignment; `generation`: the group's generation of it. Sent as JSON by members.
 */
export type Member = { id: string; generation: number; held: readonly number[] }

/**
 * Assigns each partition from 0 to `partitions - 1` to one member; the counts differ by at most one. If two members
 * claim a partition, since one missed a generation, the later generation takes precedence.
 */
export const assign = (members: readonly Member[], partitions: number): Map<string, number[]> => {
  const byGeneration = members.toSorted((a, b) => b.generation - a.generation || (a.id < b.id ? -1 : 1))
  const assigned = new Map(byGeneration.map(({ id }) => [id, [] as number[]]))
  const unassigned: number[] = []
  for (let partition = 0; partition < partitions; partition++) {
    const owner = byGeneration.find(({ held }) => held.includes(partition))
    if (owner) assigned.get(owner.id)!.push(partition)
    else unassigned.push(partition)
  }
  const even = Math.floor(partitions / members.length)
  // The members with most partitions keep the remainder, so that it does not move.
  const byLoad = [...assigned].toSorted(([a, of], [b, other]) => other.length - of.length || (a < b ? -1 : 1))
  const counts = new Map(byLoad.map(([id], i) => [id, even + (i < partitions % members.length ? 1 : 0)]))
  for (const [id, partitionsOf] of byLoad) unassigned.push(...partitionsOf.splice(counts.get(id)!))
  for (const [id, partitionsOf] of byLoad) {
    partitionsOf.push(...unassigned.splice(0, counts.get(id)! - partitionsOf.length))
    partitionsOf.sort((a, b) => a - b)
  }
  return assigned
}
