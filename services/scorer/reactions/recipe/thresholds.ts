/** What models say of held-out rows: temperature, precision and recall, and the thresholds that follow. */
import { LABELS, softmax, valueOf, WISHES, type ModelHeader } from '../../src/core/reactions/model.ts'
import type { Held } from './train.ts'

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

export const valued = (all: readonly Held[], temperature: number, least: Least): { label: number; value: number }[] =>
  all.map(({ row, labels, wishes }) => ({
    label: row.label,
    value: valueOf({ labels: probabilities(labels, temperature), wishes: probabilities(wishes, 1) }, least) ?? 0,
  }))

/** The mean over authors, each counting the same: a stranger is no likelier to write as the author of most rows. */
export const meanOfAuthors = (all: readonly Held[], temperature: number, least: Least): Measure =>
  mean([...Map.groupBy(all, ({ row }) => row.author).values()].map((own) => measure(valued(own, temperature, least))))

const mean = (measures: readonly Measure[]): Measure => {
  const of = (name: keyof Measure): number => measures.reduce((sum, one) => sum + one[name], 0) / measures.length
  return { precision: of('precision'), recall: of('recall'), signs: of('signs'), opinions: of('opinions') }
}

/**
 * What held-out strangers must show on average. With 0.92 the judge is silent on two opinions of three.
 */
const TARGET = { precision: 0.86, signs: 0.04 }
/** A wish is put into a hint from this share of right ones on; those labelled `other` may have it, too. */
const WISH_PRECISION = 0.66

/** The thresholds with the best mean recall at the target. */
export const thresholdsOf = (all: readonly Held[], temperature: number): Least => {
  const wish = wishThreshold(all)
  const authors = [...Map.groupBy(all, ({ row }) => row.author).values()].map((own) =>
    own.map(({ row, labels, wishes }) => ({
      label: row.label,
      reading: { labels: probabilities(labels, temperature), wishes: probabilities(wishes, 1) },
    })),
  )
  const at = (least: Least): Measure =>
    mean(
      authors.map((own) => measure(own.map(({ label, reading }) => ({ label, value: valueOf(reading, least) ?? 0 })))),
    )
  const wished = [...BOUNDS].find((bound) => at({ bad: 2, good: 2, wish, wished: bound }).precision >= TARGET.precision)
  let best: { least: Least; recall: number } | null = null
  for (const bad of BOUNDS)
    for (const good of BOUNDS) {
      const least = { bad, good, wish, wished: Math.min(bad, wished ?? 1) }
      const { precision, recall, signs } = at(least)
      if (precision >= TARGET.precision && signs <= TARGET.signs && recall > (best?.recall ?? 0))
        best = { least, recall }
    }
  if (!best) throw new Error('no thresholds reach the target')
  return best.least
}

/** 0.50 to 0.95. */
const BOUNDS = Array.from({ length: 46 }, (_, i) => (50 + i) / 100)

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
