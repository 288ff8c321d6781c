/** Assigns partitions to group members evenly, with as few moves as possible, and each move to who has least to read. */

/**
 * `held`: the partitions of its last assignment; `generation`: the group's generation of it; `known`: of each partition the
 * next offset that it has to read, 0 where absent. Sent as JSON by members.
 */
export type Member = {
  id: string
  generation: number
  held: readonly number[]
  known?: Readonly<Record<number, number>>
}

type Move = { partition: number; from: string | null; to: string; unread: number }

/**
 * Assigns each partition from 0 to `partitions - 1` to one member; the counts differ by at most one. If two members
 * claim a partition, since one missed a generation, the later generation takes precedence. Of the partitions that can move
 * those do of which a member lacks the fewest records that some member has read.
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
  const known = new Map(members.map((member) => [member.id, member.known ?? {}]))
  const reached = Array.from({ length: partitions }, (_, partition) =>
    Math.max(0, ...[...known.values()].map((offsets) => offsets[partition] ?? 0)),
  )
  const lacks = (id: string): number => counts.get(id)! - assigned.get(id)!.length
  const movesTo = (to: string): Move[] =>
    [
      ...unassigned.map((partition) => ({ partition, from: null })),
      ...byLoad.flatMap(([from, of]) =>
        lacks(from) < 0
          ? of
              .slice()
              .reverse()
              .map((partition) => ({ partition, from }))
          : [],
      ),
    ].map(({ partition, from }) => ({
      partition,
      from,
      to,
      unread: reached[partition]! - (known.get(to)![partition] ?? 0),
    }))
  for (;;) {
    const moves = byLoad.flatMap(([id]) => (lacks(id) > 0 ? movesTo(id) : []))
    // The first of those with the fewest, so that without `known` a member gives up its last partitions.
    const best = moves.reduce<Move | null>((least, move) => (least && least.unread <= move.unread ? least : move), null)
    if (!best) break
    const { partition, from, to } = best
    const of = from === null ? unassigned : assigned.get(from)!
    of.splice(of.indexOf(partition), 1)
    assigned.get(to)!.push(partition)
  }
  for (const of of assigned.values()) of.sort((a, b) => a - b)
  return assigned
}
