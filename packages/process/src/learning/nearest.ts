/** The known name that is closest to a mistyped one. */

/** Number of inserted, removed and replaced characters between two texts (Levenshtein). */
const editDistance = (a: string, b: string): number => {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1)
      row.push(Math.min(row[j - 1]! + 1, previous[j]! + 1, previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    previous = row
  }
  return previous[b.length]!
}

const lastPart = (name: string): string => name.slice(name.lastIndexOf('.') + 1)
const LONGEST = 200

/**
 * Compares without case, first the last parts of the dotted names, then the whole names; of equally close names the
 * first. `known` must not be empty. Only the first 200 characters of `name` are compared.
 */
export const nearestName = (name: string, known: readonly string[]): string => {
  const typed = name.slice(0, LONGEST).toLowerCase()
  const distance = (candidate: string): [number, number] => {
    const other = candidate.toLowerCase()
    return [editDistance(lastPart(typed), lastPart(other)), editDistance(typed, other)]
  }
  let best = { name: known[0]!, distance: distance(known[0]!) }
  for (const candidate of known.slice(1)) {
    const found = distance(candidate)
    const [last, whole] = [found[0] - best.distance[0], found[1] - best.distance[1]]
    if (last < 0 || (last === 0 && whole < 0)) best = { name: candidate, distance: found }
  }
  return best.name
}
