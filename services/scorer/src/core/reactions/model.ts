/** The linear model of reactions: read from the bytes of a weights file, and the probabilities that it gives. */
import { InstarError } from '@instar/events'
import { FEATURES_VERSION, featuresOf, GROUPS, type Features, type Group, type Reaction } from './features.ts'

export const LABELS = [-1, 0, 1] as const
export type Label = (typeof LABELS)[number]
/** What a better answer would have been. */
export const WISHES = [
  'shorter',
  'longer',
  'plainer',
  'structured',
  'warmer',
  'drier',
  'fix_value',
  'undo',
  'other',
] as const
export type Wish = (typeof WISHES)[number]
/** Logits of a row of weights: those of the labels, then those of the wishes. */
export const OUTPUTS = LABELS.length + WISHES.length

/** What a group's features weigh: `scale / sqrt(n)` each, of n features in a text. */
const SCALES: Readonly<Record<Group, number>> = {
  words: 1,
  chars: 0.35,
  last: 0.6,
  context: 1,
  relation: 0.7,
  tools: 1.5,
  sense: 1,
}

/** `rows` and their `values`: the features that the model knows. `groups`: index in GROUPS of each. */
export type Input = { rows: Uint32Array; values: Float32Array; groups: Uint8Array }

export const inputOf = (features: Features, rowOf: ReadonlyMap<number, number>): Input => {
  const rows: number[] = []
  const values: number[] = []
  const groups: number[] = []
  for (const [g, group] of GROUPS.entries()) {
    const hashes = features[group]
    const value = SCALES[group] / Math.sqrt(Math.max(1, hashes.length))
    for (const hash of hashes) {
      const row = rowOf.get(hash)
      if (row === undefined) continue
      rows.push(row)
      values.push(value)
      groups.push(g)
    }
  }
  return { rows: Uint32Array.from(rows), values: Float32Array.from(values), groups: Uint8Array.from(groups) }
}

export type ModelHeader = {
  /** FEATURES_VERSION of the build that wrote it. */
  features: number
  /** SHA-256 of the rows and of the versions of recipe and features, hexadecimal. */
  data: string
  /** Number of the words that are common in reactions. */
  common: number
  /** Number of the rows of weights. */
  rows: number
  bias: readonly number[]
  /** One step of each output's 8-bit weights. */
  steps: readonly number[]
  temperature: number
  /**
   * The least probabilities at which the judge says −1 and +1; at which a wish is put into a hint; and at which it says
   * −1 where there is such a wish for another form.
   */
  least: { bad: number; good: number; wish: number; wished: number }
}

export type ReactionModel = ModelHeader & {
  commonWords: ReadonlySet<number>
  rowOf: ReadonlyMap<number, number>
  weights: Int8Array
}

/**
 * Parts of a weights file: the length of the header (32 bits, little-endian), the header (JSON), common words, rows,
 * weights.
 */
export const encodeModel = (
  head: ModelHeader,
  common: Uint32Array,
  rows: Uint32Array,
  weights: Int8Array,
): Uint8Array => {
  const json = new TextEncoder().encode(JSON.stringify(head))
  const bytes = new Uint8Array(4 + json.length + 4 * (common.length + rows.length) + weights.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, json.length, true)
  bytes.set(json, 4)
  let at = 4 + json.length
  for (const list of [common, rows])
    for (const value of list) {
      view.setUint32(at, value, true)
      at += 4
    }
  bytes.set(new Uint8Array(weights.buffer, weights.byteOffset, weights.length), at)
  return bytes
}

/** Throws `data_unreadable` for bytes that are no weights file of this build. */
export const decodeModel = (bytes: Uint8Array): ReactionModel => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const length = bytes.length < 4 ? 0 : view.getUint32(0, true)
  let head: ModelHeader
  try {
    head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as ModelHeader
  } catch (cause) {
    throw new InstarError('data_unreadable', 'The weights of the reactions judge cannot be read.', {}, { cause })
  }
  if (head.features !== FEATURES_VERSION || head.bias.length !== OUTPUTS || head.steps.length !== OUTPUTS)
    throw new InstarError('data_unreadable', 'The weights of the reactions judge are of another build.')
  const start = 4 + length
  const middle = start + 4 * head.common
  const end = middle + 4 * head.rows
  if (bytes.length !== end + head.rows * OUTPUTS)
    throw new InstarError('data_unreadable', 'The weights of the reactions judge have the wrong length.')
  const commonWords = new Set<number>()
  for (let at = start; at < middle; at += 4) commonWords.add(view.getUint32(at, true))
  const rowOf = new Map<number, number>()
  for (let row = 0; row < head.rows; row += 1) rowOf.set(view.getUint32(middle + 4 * row, true), row)
  const weights = new Int8Array(bytes.buffer, bytes.byteOffset + end, head.rows * OUTPUTS)
  return { ...head, commonWords, rowOf, weights }
}

/** Probabilities of LABELS and of WISHES, the latter given that the label is −1. */
export type Reading = { labels: Float64Array; wishes: Float64Array }

export const readReaction = (model: ReactionModel, reaction: Reaction): Reading => {
  const { rows, values } = inputOf(
    featuresOf(reaction, (hash) => model.commonWords.has(hash)),
    model.rowOf,
  )
  const sums = new Float64Array(OUTPUTS)
  for (let f = 0; f < rows.length; f += 1) {
    const at = rows[f]! * OUTPUTS
    for (let o = 0; o < OUTPUTS; o += 1) sums[o]! += model.weights[at + o]! * values[f]!
  }
  const logits = sums.map((sum, o) => sum * model.steps[o]! + model.bias[o]!)
  const labels = logits.slice(0, LABELS.length).map((logit) => logit / model.temperature)
  const wishes = logits.slice(LABELS.length)
  softmax(labels)
  softmax(wishes)
  return { labels, wishes }
}

/** Wishes about how an answer is written: what is taken for one of them is seldom anything else. */
const FORMS: ReadonlySet<Wish> = new Set(['shorter', 'longer', 'plainer', 'structured', 'warmer', 'drier'])

/** The likeliest wish. */
export const wishOf = ({ wishes }: Reading): { wish: Wish; probability: number } => {
  let best = 0
  for (let i = 1; i < wishes.length; i += 1) if (wishes[i]! > wishes[best]!) best = i
  return { wish: WISHES[best]!, probability: wishes[best]! }
}

/** −1 or +1; null: not sure enough. */
export const valueOf = (reading: Reading, least: ModelHeader['least']): -1 | 1 | null => {
  const [bad, , good] = reading.labels as unknown as [number, number, number]
  if (bad >= least.bad) return -1
  if (good >= least.good) return 1
  const { wish, probability } = wishOf(reading)
  return bad >= least.wished && FORMS.has(wish) && probability >= least.wish ? -1 : null
}

/** In place. */
export const softmax = (logits: Float64Array): void => {
  const most = Math.max(...logits)
  let sum = 0
  for (let i = 0; i < logits.length; i += 1) sum += logits[i] = Math.exp(logits[i]! - most)
  for (let i = 0; i < logits.length; i += 1) logits[i]! /= sum
}
