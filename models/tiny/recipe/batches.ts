/** Training batches: conversations of similar length side by side, so that little is padding. */
import type { PretrainingBatch } from '@instar/policy/pretraining'
import { pieces } from './chat.ts'
import { bareExchange, converse } from './corpus.ts'
import { chance, integer, seeded } from './random.ts'
import type { Random } from './random.ts'

/** Conversations that are sorted by length together, to within `GRAIN` tokens so that a batch holds all families. */
const CHUNK = 640
const GRAIN = 12
/** Longer conversations are left out (about one in a thousand). */
const LONGEST = 768
const PAD = 0

type Row = { ids: number[]; weights: number[] }

/** `weights[t]` weighs the prediction of token t. */
function row(encode: (text: string) => number[], random: Random, bare: number): Row {
  const ids: number[] = []
  const weights: number[] = []
  for (const piece of pieces(chance(random, bare) ? bareExchange(random, 0.7) : converse(random))) {
    for (const id of encode(piece.text)) {
      ids.push(id)
      weights.push(piece.weight)
    }
  }
  return { ids, weights }
}

function batch(rows: readonly Row[], T: number): PretrainingBatch {
  const ids = new Int32Array(rows.length * T).fill(PAD)
  const tokenWeights = new Float32Array(rows.length * T)
  rows.forEach((one, b) => {
    ids.set(one.ids, b * T)
    for (let t = 1; t < one.ids.length; t++) tokenWeights[b * T + t - 1] = one.weights[t]!
  })
  return { B: rows.length, T, ids, tokenWeights }
}

/**
 * Endless, and a function of its arguments alone. `tokens`: at most so many positions in a batch, padding
 * included. `bare`: the share of bare exchanges among the conversations after so many batches.
 */
export function* batches(
  encode: (text: string) => number[],
  seed: number,
  tokens: number,
  bare: (batches: number) => number,
): Generator<PretrainingBatch, never> {
  const random = seeded(seed)
  let given = 0
  for (;;) {
    const share = bare(given)
    const rows: Row[] = []
    while (rows.length < CHUNK) {
      const one = row(encode, random, share)
      if (one.ids.length <= LONGEST) rows.push(one)
    }
    rows.sort((a, b) => Math.ceil(a.ids.length / GRAIN) - Math.ceil(b.ids.length / GRAIN))
    const chunk: PretrainingBatch[] = []
    for (let end = rows.length; end > 0;) {
      const longest = Math.ceil(rows[end - 1]!.ids.length / GRAIN) * GRAIN
      const begin = Math.max(0, end - Math.max(1, Math.floor(tokens / longest)))
      const some = rows.slice(begin, end)
      chunk.push(batch(some, Math.max(...some.map((one) => one.ids.length))))
      end = begin
    }
    for (let i = chunk.length - 1; i > 0; i--) {
      const j = integer(random, 0, i)
      const kept = chunk[i]!
      chunk[i] = chunk[j]!
      chunk[j] = kept
    }
    for (const one of chunk) {
      given++
      yield one
    }
  }
}
