/** The longest common subsequence of two lists of words, as runs. */

export type Run = { text: string; in: 'both' | 'a' | 'b' }

/** Words of each side at most: the table has as many cells as their product. */
const MOST = 1_500

export const words = (text: string): string[] => text.match(/\s*\S+|\s+$/g) ?? []

/** Runs of words in the order of the texts. Longer texts are compared by their beginnings; the rest differs. */
export const diff = (a: readonly string[], b: readonly string[]): Run[] => {
  const [m, n] = [Math.min(a.length, MOST), Math.min(b.length, MOST)]
  const width = n + 1
  const table = new Uint16Array((m + 1) * width)
  for (let i = m - 1; i >= 0; i -= 1)
    for (let j = n - 1; j >= 0; j -= 1)
      table[i * width + j] =
        a[i] === b[j]
          ? table[(i + 1) * width + j + 1]! + 1
          : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!)
  const runs: Run[] = []
  const add = (text: string, side: Run['in']): void => {
    const last = runs.at(-1)
    if (last?.in === side) last.text += text
    else runs.push({ text, in: side })
  }
  let [i, j] = [0, 0]
  while (i < m || j < n) {
    if (i < m && j < n && a[i] === b[j]) {
      add(a[i]!, 'both')
      i += 1
      j += 1
    } else if (j < n && (i === m || table[i * width + j + 1]! > table[(i + 1) * width + j]!)) add(b[j++]!, 'b')
    else add(a[i++]!, 'a')
  }
  for (const text of a.slice(m)) add(text, 'a')
  for (const text of b.slice(n)) add(text, 'b')
  return runs
}
