/**
 * Rows of a forward or backward pass, each computed once for all the answers in it. The turns of one session extend each
 * other: the prompt and answer of one are the first tokens of the next one's prompt. A position of a causal model does not
 * depend on what follows, so the log-probabilities of such an answer, and their gradients, are the same in the longer row.
 */

export type Sequence = { prompt: readonly number[]; completion: readonly number[] }
/** `ids`: the whole row, prompt and answer of its longest sequence. `members`: the indices of the sequences in it. */
export type SharedRow = { ids: readonly number[]; members: readonly number[] }

const startsWith = (ids: readonly number[], prefix: readonly number[]): boolean =>
  prefix.length <= ids.length && prefix.every((id, at) => ids[at] === id)

/**
 * One row for each sequence, or, where `shared`, one for the sequences that are the beginning of another one, prompt and
 * answer. Rows are in the order of the first sequence in each. Equal arguments give equal rows: requests are made of them.
 */
export const sharedRows = (sequences: readonly Sequence[], shared: boolean): SharedRow[] => {
  const whole = sequences.map(({ prompt, completion }, index) => ({ index, ids: [...prompt, ...completion] }))
  if (!shared) return whole.map(({ index, ids }) => ({ ids, members: [index] }))
  const rows: { ids: readonly number[]; members: number[] }[] = []
  for (const { index, ids } of whole.sort((a, b) => b.ids.length - a.ids.length || a.index - b.index)) {
    const row = rows.find((one) => startsWith(one.ids, ids))
    if (row) row.members.push(index)
    else rows.push({ ids, members: [index] })
  }
  for (const { members } of rows) members.sort((a, b) => a - b)
  return rows.sort((a, b) => (a.members[0] ?? 0) - (b.members[0] ?? 0))
}

/** Of a row's targets (its ids without the first): where the answer of a sequence begins. */
export const answerStart = ({ prompt }: Sequence): number => prompt.length - 1

/** For each sequence the part of its row's `values` (one for each target) that is its answer's. */
export const answersIn = (
  rows: readonly SharedRow[],
  sequences: readonly Sequence[],
  values: readonly Float32Array[],
): Float32Array[] => {
  const found: Float32Array[] = []
  rows.forEach(({ members }, at) => {
    for (const index of members) {
      const sequence = sequences[index]
      if (!sequence) continue
      const start = answerStart(sequence)
      found[index] = values[at]?.slice(start, start + sequence.completion.length) ?? new Float32Array()
    }
  })
  return found
}

/** The tokens of each row: of answers, and all others as its prompt. */
export const rowTokens = (
  rows: readonly SharedRow[],
  sequences: readonly Sequence[],
): { prompt: { length: number }; completion: { length: number } }[] =>
  rows.map(({ ids, members }) => {
    const answered = new Set<number>()
    for (const index of members) {
      const sequence = sequences[index]
      sequence?.completion.forEach((_, j) => answered.add(sequence.prompt.length + j))
    }
    return { prompt: { length: ids.length - answered.size }, completion: { length: answered.size } }
  })
