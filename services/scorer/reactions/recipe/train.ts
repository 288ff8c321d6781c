/**
 * From rows to a model: vocabulary, both regressions, temperature and thresholds from held-out contexts, 8-bit weights.
 */
import { FEATURES_VERSION, featuresOf, type Features } from '../../src/core/reactions/features.ts'
import { hashText } from '../../src/core/reactions/hash.ts'
import {
  encodeModel,
  inputOf,
  LABELS,
  OUTPUTS,
  softmax,
  WISHES,
  type Input,
  type ModelHeader,
} from '../../src/core/reactions/model.ts'
import { tokensOf } from '../../src/core/reactions/text.ts'
import { augmented } from './augment.ts'
import { reactionOf, type Row } from './data.ts'
import { learn, logitsOf, seeded, type Example } from './learn.ts'

const SETTINGS = { epochs: 12, rate: 0.15, decay: 1e-4, dropout: 0.2, groupDropout: 0.2, smoothing: 0.05 }
/** Runs with other seeds, averaged. */
const SEEDS = [1, 2, 3]
/** What a row without a named wish weighs in the regression of wishes: most such rows name none. */
const OTHER_WEIGHT = 0.2
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
  const labelled = all.map((row, i) => example(inputs[i]!, LABELS.indexOf(row.label), row.weight))
  const wishing = all.flatMap((row, i) =>
    row.wish === null
      ? []
      : [example(inputs[i]!, WISHES.indexOf(row.wish), row.weight * (row.wish === 'other' ? OTHER_WEIGHT : 1))],
  )
  return {
    common,
    rowOf,
    labels: averaged(labelled, LABELS.length, rowOf.size),
    wishes: averaged(wishing, WISHES.length, rowOf.size),
  }
}

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
export const heldOutAuthors = (rows: readonly Row[], say: (line: string) => void): Held[] =>
  [...Map.groupBy(rows, ({ author }) => author)].flatMap(([author, own]) => {
    say(`without ${author}`)
    const model = trainOn(rows.filter((row) => row.author !== author))
    return own.map((row) => held(model, row))
  })

const held = ({ common, rowOf, labels, wishes }: Trained, row: Row): Held => {
  const features: Features = featuresOf(reactionOf(row), (hash) => common.has(hash))
  const input = inputOf(features, rowOf)
  return { row, labels: logitsOf(labels, LABELS.length, input), wishes: logitsOf(wishes, WISHES.length, input) }
}

export const probabilities = (logits: Float64Array, temperature: number): Float64Array => {
  const scaled = logits.map((logit) => logit / temperature)
  softmax(scaled)
  return scaled
}

/** The temperature with the least cross-entropy, to one hundredth. */
export const temperatureOf = (all: readonly Held[]): number => {
  let best = { temperature: 1, loss: Infinity }
  for (let step = 50; step <= 300; step += 1) {
    const temperature = step / 100
    let loss = 0
    for (const { row, labels } of all) loss -= Math.log(probabilities(labels, temperature)[LABELS.indexOf(row.label)]!)
    if (loss < best.loss) best = { temperature, loss }
  }
  return best.temperature
}

export type Least = ModelHeader['least']
export type Measure = { precision: number; recall: number; signs: number; opinions: number }

export const measure = (all: readonly { label: number; value: number }[]): Measure => {
  const opinions = all.filter(({ value }) => value !== 0)
  const right = opinions.filter(({ label, value }) => label === value).length
  const signs = opinions.filter(({ label, value }) => label === -value).length
  const opinionated = all.filter(({ label }) => label !== 0).length
  return {
    precision: right / opinions.length,
    recall: right / opinionated,
    signs: signs / all.length,
    opinions: opinions.length / all.length,
  }
}

export const valued = (
  all: readonly Held[],
  temperature: number,
  { bad, good }: Least,
): { label: number; value: number }[] =>
  all.map(({ row, labels }) => {
    const [minus, , plus] = probabilities(labels, temperature)
    return { label: row.label, value: minus! >= bad ? -1 : plus! >= good ? 1 : 0 }
  })

/** The mean over authors, each counting the same: a stranger is no likelier to write as the author of most rows. */
export const meanOfAuthors = (all: readonly Held[], temperature: number, least: Least): Measure => {
  const measures = [...Map.groupBy(all, ({ row }) => row.author).values()].map((own) =>
    measure(valued(own, temperature, least)),
  )
  const mean = (name: keyof Measure): number => measures.reduce((sum, one) => sum + one[name], 0) / measures.length
  return { precision: mean('precision'), recall: mean('recall'), signs: mean('signs'), opinions: mean('opinions') }
}

/** What held-out contexts must show. */
const TARGET = { precision: 0.92, signs: 0.02 }
/** A wish is put into a hint from this probability of held-out rows on; those labelled `other` may have it, too. */
const WISH_PRECISION = 0.72

/** The thresholds with the best recall at the target. */
export const thresholdsOf = (all: readonly Held[], temperature: number): Least => {
  const wish = wishThreshold(all)
  let best: { least: Least; recall: number } | null = null
  for (let bad = 50; bad <= 95; bad += 1)
    for (let good = 50; good <= 95; good += 1) {
      const least = { bad: bad / 100, good: good / 100, wish }
      const { precision, recall, signs } = measure(valued(all, temperature, least))
      if (precision >= TARGET.precision && signs <= TARGET.signs && recall > (best?.recall ?? 0))
        best = { least, recall }
    }
  if (!best) throw new Error('no thresholds reach the target')
  return best.least
}

const wishThreshold = (all: readonly Held[]): number => {
  for (let least = 30; least < 95; least += 1)
    if (wishPrecision(all, least / 100).precision >= WISH_PRECISION) return least / 100
  return 0.95
}

export const wishPrecision = (all: readonly Held[], least: number): { precision: number; recall: number } => {
  let given = 0
  let right = 0
  let named = 0
  for (const { row, wishes } of all) {
    if (row.wish === null) continue
    const p = probabilities(wishes, 1)
    const best = p.indexOf(Math.max(...p))
    if (row.wish !== 'other') named += 1
    if (WISHES[best] === 'other' || p[best]! < least) continue
    given += 1
    if (WISHES[best] === row.wish) right += 1
  }
  return { precision: right / given, recall: right / named }
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
