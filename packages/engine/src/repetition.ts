/** The share of 4-grams that occurred earlier in the same completion, 0 to 1. */
export const repetition = (completions: readonly (readonly number[])[]): number => {
  let all = 0
  let repeated = 0
  for (const ids of completions) {
    const seen = new Set<string>()
    for (let at = 0; at + 4 <= ids.length; at += 1) {
      const gram = ids.slice(at, at + 4).join()
      all += 1
      if (seen.has(gram)) repeated += 1
      seen.add(gram)
    }
  }
  return all === 0 ? 0 : repeated / all
}
