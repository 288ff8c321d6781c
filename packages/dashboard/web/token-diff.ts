/** The longest common subsequence of two lists, as marks of what is not part of it. */

/** Entries of each side at most: the table has as many cells as their product. */
export const MOST = 2_048

/**
 * For each entry, whether it differs: it is not part of the longest common subsequence. Longer lists are compared by
 * their beginnings, and the rest differs.
 */
export const differing = <T>(a: readonly T[], b: readonly T[]): { a: boolean[]; b: boolean[] } => {
  const [m, n] = [Math.min(a.length, MOST), Math.min(b.length, MOST)]
  const width = n + 1
  const table = new Uint16Array((m + 1) * width)
  for (let i = m - 1; i >= 0; i -= 1)
    for (let j = n - 1; j >= 0; j -= 1)
      table[i * width + j] =
        a[i] === b[j]
          ? table[(i + 1) * width + j + 1]! + 1
          : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!)
  const marks = { a: a.map(() => true), b: b.map(() => true) }
  let [i, j] = [0, 0]
  while (i < m && j < n)
    if (a[i] === b[j]) {
      marks.a[i++] = false
      marks.b[j++] = false
    } else if (table[i * width + j + 1]! > table[(i + 1) * width + j]!) j += 1
    else i += 1
  return marks
}

/** Entries with which both lists begin. */
export const agreeing = <T>(a: readonly T[], b: readonly T[]): number => {
  const at = a.findIndex((value, i) => value !== b[i])
  return at < 0 ? a.length : at
}

/** Words with the space before them, for an engine that tells no tokens. */
export const words = (text: string): string[] => text.match(/\s*\S+|\s+$/g) ?? []
