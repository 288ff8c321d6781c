/** From rows to a model: vocabulary, both regressions, models without some rows, 8-bit weights. */
import { FEATURES_VERSION, featuresOf, GROUPS, type Features, type Group } from '../../src/core/reactions/features.ts'
import { hashText } from '../../src/core/reactions/hash.ts'
import {
  encodeModel,
  inputOf,
  LABELS,
  OUTPUTS,
  WISHES,
  type Input,
  type ModelHeader,
} from '../../src/core/reactions/model.ts'
import { tokensOf } from '../../src/core/reactions/text.ts'
import { augmented } from './augment.ts'
import { isStranger, reactionOf, type Row } from './data.ts'
import { learn, logitsOf, seeded, type Example } from './learn.ts'

const SETTINGS = { epochs: 12, rate: 0.1, decay: 1e-4, dropout: 0.2, groupDropout: 0.3, smoothing: 0.05 }
/** Runs with other seeds, averaged. */
const SEEDS = [1, 2, 3]
/** What a row without a named wish weighs in the regression of wishes: most such rows name none. */
const OTHER_WEIGHT = 0.2
/** What a stranger's row weighs: the rows of the first authors are many and alike. */
const STRANGER_WEIGHT = 2.5
const FOLDS = 5

/** Rows of weights in a file (1.5 MB): those that say most, in the most examples. */
const MOST_ROWS = 91_000

/** `counts`: of examples in which a row occurs. */
export type Trained = {
  common: Set<number>
  rowOf: Map<number, number>
  counts: Uint32Array
  labels: Float32Array
  wishes: Float32Array
}

/** What occurs in at least so many contexts: words that are common, features that are known. */
const inContexts = (least: number, pairs: Iterable<readonly [number, number]>): Set<number> => {
  const contexts = new Map<number, number[]>()
  const several = new Set<number>()
  for (const [hash, ctx] of pairs) {
    const seen = contexts.get(hash) ?? []
    if (seen.length >= least || seen.includes(ctx)) continue
    contexts.set(hash, [...seen, ctx])
    if (seen.length + 1 === least) several.add(hash)
  }
  return several
}
/** Contexts in which a feature must occur; runs of characters are many and say little each. */
const CONTEXTS = 2
const CONTEXTS_CHARS = 3

export const trainOn = (rows: readonly Row[]): Trained => {
  const common = inContexts(
    CONTEXTS,
    rows.flatMap(({ next, ctx }) =>
      tokensOf(next.user).flatMap(({ kind, norm }) => (kind === 'word' ? [[hashText(norm), ctx] as const] : [])),
    ),
  )
  const all = augmented(rows, 7)
  const features = all.map((row) => featuresOf(reactionOf(row), (hash) => common.has(hash)))
  const occurrences = function* (groups: readonly Group[]): Generator<readonly [number, number]> {
    for (const [i, { ctx, weight }] of all.entries())
      if (weight === 1) for (const group of groups) for (const hash of features[i]![group]) yield [hash, ctx]
  }
  const known = inContexts(CONTEXTS, occurrences(GROUPS.filter((group) => group !== 'chars')))
  for (const hash of inContexts(CONTEXTS_CHARS, occurrences(['chars']))) known.add(hash)
  const rowOf = new Map([...known].toSorted((a, b) => a - b).map((hash, i) => [hash, i]))
  const inputs = features.map((one) => inputOf(one, rowOf))
  const labelled = all.map((row, i) => example(inputs[i]!, LABELS.indexOf(row.label), weightOf(row)))
  const wishing = all.flatMap((row, i) =>
    row.wish === null
      ? []
      : [example(inputs[i]!, WISHES.indexOf(row.wish), weightOf(row) * (row.wish === 'other' ? OTHER_WEIGHT : 1))],
  )
  return {
    common,
    rowOf,
    counts: countsOf(inputs, rowOf.size),
    labels: averaged(labelled, LABELS.length, rowOf.size),
    wishes: averaged(wishing, WISHES.length, rowOf.size),
  }
}

const countsOf = (inputs: readonly Input[], size: number): Uint32Array => {
  const counts = new Uint32Array(size)
  for (const { rows } of inputs) for (const row of rows) counts[row]! += 1
  return counts
}

const weightOf = ({ weight, author }: Row): number => weight * (isStranger(author) ? STRANGER_WEIGHT : 1)

const example = (input: Input, target: number, weight: number): Example => ({ input, target, weight })

const averaged = (examples: readonly Example[], classes: number, rows: number): Float32Array => {
  const sum = new Float32Array((rows + 1) * classes)
  for (const seed of SEEDS) {
    const weights = learn(examples, { ...SETTINGS, classes, rows, seed })
    for (let i = 0; i < sum.length; i += 1) sum[i]! += weights[i]! / SEEDS.length
  }
  return sum
}

/** A row of a held-out context with the logits that a model without that context gives. */
export type Held = { row: Row; labels: Float64Array; wishes: Float64Array }

export const heldOut = (rows: readonly Row[], say: (line: string) => void): Held[] => {
  const random = seeded(5)
  const foldOf = new Map<number, number>()
  for (const { ctx } of rows) if (!foldOf.has(ctx)) foldOf.set(ctx, Math.floor(random() * FOLDS))
  return Array.from({ length: FOLDS }, (_, fold) => {
    say(`fold ${fold + 1} of ${FOLDS}`)
    const model = trainOn(rows.filter(({ ctx }) => foldOf.get(ctx) !== fold))
    return rows.filter(({ ctx }) => foldOf.get(ctx) === fold).map((row) => held(model, row))
  }).flat()
}

/** Of each author's rows what a model without them says: what it makes of people of whom it has seen nothing. */
export const heldOutAuthors = (
  rows: readonly Row[],
  authors: (author: string) => boolean,
  say: (line: string) => void,
): Held[] =>
  [...Map.groupBy(rows, ({ author }) => author)].flatMap(([author, own]) => {
    if (!authors(author)) return []
    say(`without ${author}`)
    const model = trainOn(rows.filter((row) => row.author !== author))
    return own.map((row) => held(model, row))
  })

const held = ({ common, rowOf, labels, wishes }: Trained, row: Row): Held => {
  const features: Features = featuresOf(reactionOf(row), (hash) => common.has(hash))
  const input = inputOf(features, rowOf)
  return { row, labels: logitsOf(labels, LABELS.length, input), wishes: logitsOf(wishes, WISHES.length, input) }
}

/** Rows of weights that round to nothing are left out, and those that say least beyond MOST_ROWS. */
export const quantised = (
  trained: Trained,
  calibration: Pick<ModelHeader, 'temperature' | 'least' | 'data'>,
): Uint8Array => {
  const { rowOf, common } = trained
  const get = (row: number, output: number): number =>
    output < LABELS.length
      ? trained.labels[row * LABELS.length + output]!
      : trained.wishes[row * WISHES.length + output - LABELS.length]!
  const steps = Array.from({ length: OUTPUTS }, (_, output) => {
    let most = 1e-6
    for (let row = 0; row < rowOf.size; row += 1) most = Math.max(most, Math.abs(get(row, output)))
    return Number((most / 127).toPrecision(6))
  })
  const largest = Float64Array.from({ length: rowOf.size }, (_, row) =>
    Math.max(...steps.map((step, output) => Math.abs(Math.round(get(row, output) / step)))),
  )
  const said = largest.map((one, row) => one * trained.counts[row]!)
  const least = said.toSorted().at(-MOST_ROWS) ?? 0
  const kept = [...rowOf].filter(([, row]) => largest[row] !== 0 && said[row]! >= least)
  const weights = new Int8Array(kept.length * OUTPUTS)
  for (const [i, [, row]] of kept.entries())
    for (let o = 0; o < OUTPUTS; o += 1)
      weights[i * OUTPUTS + o] = Math.max(-127, Math.min(127, Math.round(get(row, o) / steps[o]!)))
  const head: ModelHeader = {
    features: FEATURES_VERSION,
    common: common.size,
    rows: kept.length,
    bias: steps.map((_, o) => Number(get(rowOf.size, o).toPrecision(6))),
    steps,
    ...calibration,
  }
  return encodeModel(
    head,
    Uint32Array.from([...common].toSorted((a, b) => a - b)),
    Uint32Array.from(kept, ([hash]) => hash),
    weights,
  )
}
