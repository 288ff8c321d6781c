/** From rows to a model: vocabulary, both regressions, models without some rows, 8-bit weights. */
import { FEATURES_VERSION, featuresOf, type Features } from '../../src/core/reactions/features.ts'
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

const SETTINGS = { epochs: 12, rate: 0.15, decay: 1e-4, dropout: 0.2, groupDropout: 0.2, smoothing: 0.05 }
/** Runs with other seeds, averaged. */
const SEEDS = [1, 2, 3]
/** What a row without a named wish weighs in the regression of wishes: most such rows name none. */
const OTHER_WEIGHT = 0.2
/** What a stranger's row weighs: the rows of the first authors are many and alike. */
const STRANGER_WEIGHT = 2.5
const FOLDS = 5

export type Trained = { common: Set<number>; rowOf: Map<number, number>; labels: Float32Array; wishes: Float32Array }

/** What occurs in at least two contexts: words that are common, features that are known. */
const inTwoContexts = (pairs: Iterable<readonly [number, number]>): Set<number> => {
  const first = new Map<number, number>()
  const several = new Set<number>()
  for (const [hash, ctx] of pairs) {
    const seen = first.get(hash)
    if (seen === undefined) first.set(hash, ctx)
    else if (seen !== ctx) several.add(hash)
  }
  return several
}

export const trainOn = (rows: readonly Row[]): Trained => {
  const common = inTwoContexts(
    rows.flatMap(({ next, ctx }) =>
      tokensOf(next.user).flatMap(({ kind, norm }) => (kind === 'word' ? [[hashText(norm), ctx] as const] : [])),
    ),
  )
  const all = augmented(rows, 7)
  const features = all.map((row) => featuresOf(reactionOf(row), (hash) => common.has(hash)))
  const known = inTwoContexts(
    (function* () {
      for (const [i, { ctx, weight }] of all.entries())
        if (weight === 1) for (const group of Object.values(features[i]!)) for (const hash of group) yield [hash, ctx]
    })(),
  )
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
    labels: averaged(labelled, LABELS.length, rowOf.size),
    wishes: averaged(wishing, WISHES.length, rowOf.size),
  }
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

/** Rows of weights that round to nothing are left out. */
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
  const kept = [...rowOf].filter(([, row]) => steps.some((step, output) => Math.round(get(row, output) / step) !== 0))
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
